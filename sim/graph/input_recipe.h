// input_recipe.h - a graph as the scenario of its ranks before it runs.
#pragma once

#include "sim/scenario/scenario.h"
#include "trace/graph.h"

namespace shardlab {

/// A scenario without a program: the inputs and options of a graph's ranks before it runs.
///   fails  Value: an unknown recipe or policy, which is named
Scenario scenario_of(const ProgramGraph& graph);

}  // namespace shardlab
