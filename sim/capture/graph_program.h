// graph_program.h - a graph as a program in C++: a statement for each node, against the installed
// library, so that it can be read, changed and run without scenario, language and interpreter.
#pragma once

#include <string>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

class OpRegistry;

/// The whole text, in C++20. At its end the program prints what print_digests() prints of all final
/// values of the graph, and its last line has the graph's digests.
///   fails  Unsupported: ranks whose graphs differ; a node without a statement, which is
///          named: a hook that is called twice, numbers that follow from sizes
std::string graph_program(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry);

}  // namespace shardlab
