// graph_scenario.h - a graph as a scenario file: a statement for each node, so that it can be read,
// changed and run without the program that it was captured from.
#pragma once

#include <string>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

class OpRegistry;

/// The file's text. Captured again, it gives the same graph, except for places in the program.
///   fails  Unsupported: ranks whose graphs differ; a node without a statement, which is
///          named: data that differ by rank, hooks in backward, writes through x[0:2]
std::string graph_scenario(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry);

}  // namespace shardlab
