// input_recipe.h - inputs of scenarios as graphs write them, and back.
#pragma once

#include <string>

#include "sim/scenario/scenario.h"
#include "trace/graph.h"

namespace shardlab {

InputRecipe recipe_of(const ScenarioInput& input);
/// A scenario without a program: what the ranks of a graph are given before it runs.
///   fails  Value: a recipe or a policy that nobody knows, which is named
Scenario scenario_of(const ProgramGraph& graph);

}  // namespace shardlab
