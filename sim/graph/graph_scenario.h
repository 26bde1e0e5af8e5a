// graph_scenario.h - a graph as a scenario file: a statement for each node, so that it can be read,
// changed and run without the program that it was captured from.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

class OpRegistry;

/// Names and places of a graph that was not captured, in place of the writer's own.
struct GraphNames {
  std::unordered_map<std::int32_t, std::string> values;  ///< by number
  std::vector<std::string> comments;                     ///< by node: behind its line; may be empty
  std::vector<bool> inside;            ///< by node: its result is written where it is taken
  std::string backend;                 ///< empty: the program's choice
  std::vector<std::string> gradients;  ///< inputs whose gradients are compared
};

/// The file's text. Captured again, it gives the same graph, except for places in the program.
/// Graphs of ranks have blocks of their own from the node on at which they part: `if rank in [0]:`.
///   fails  Unsupported: a node without a statement, which is named: hooks in backward, writes
///          through x[0:2]
std::string graph_scenario(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry);
/// The same of one graph with names. Arguments that are defaults are left out.
std::string graph_scenario(const ProgramGraph& graph, const OpRegistry& registry,
                           const GraphNames& names);

}  // namespace shardlab
