// input_recipe.h - a graph as the scenario that its ranks are given before it runs.
#pragma once

#include <string>

#include "sim/scenario/scenario.h"
#include "trace/graph.h"

namespace shardlab {

/// A scenario without a program: what the ranks of a graph are given before it runs.
///   fails  Value: a recipe or a policy that nobody knows, which is named
Scenario scenario_of(const ProgramGraph& graph);

}  // namespace shardlab
