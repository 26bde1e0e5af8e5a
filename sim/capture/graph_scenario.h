// graph_scenario.h - a graph as a scenario file: a statement for each node, so that it can be read,
// changed and run without the program that it was captured from.
#pragma once

#include <string>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

class OpRegistry;

/// The file's text. Captured again, it gives the same graph, except for places in the program.
/// Graphs of ranks have blocks of their own from the node on at which they part: `if rank in [0]:`.
///   fails  Unsupported: a node without a statement, which is named: hooks in backward, writes
///          through x[0:2]
std::string graph_scenario(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry);

}  // namespace shardlab
