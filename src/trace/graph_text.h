// graph_text.h - a graph for people: one line a node, with the parts of the node below it.
//
//   %2: f32[8@dp, 64@tp] = aten::mm(%0, %1)    line 12
//         moves argument 1 from f32[64@tp, 16] to f32[64, 16]: S(0)->R
//         all_gather over tp f32[16, 16]
#pragma once

#include <string>

#include "trace/graph.h"

namespace shardlab {

/// A program has the ranks of a graph in common; one rank has groups and lengths of its own.
enum class GraphLevel : std::uint8_t { kProgram, kRank };

/// Inputs, constants and calls, in order; without setup actions. Ends with an end of line.
std::string graph_text(const ProgramGraph& graph, GraphLevel level);
/// One node, without the lines below it and without an end of line.
std::string node_text(const ProgramGraph& graph, const GraphNode& node);
/// The meshes that the program makes, in order, one a line; empty where it makes none.
std::string setup_text(const ProgramGraph& graph);
/// A number that follows from sizes, as arithmetic on them: "(x.shape[0] * 2) - 1".
std::string number_text(const ProgramGraph& graph, const GraphArgument& number);
/// The values that a node gives and takes: "f32[8@dp, 64@tp]".
std::string type_text(const ProgramGraph& graph, const ValueType& type);
/// "randn(1.0)", "values": the source of an input.
std::string recipe_text(const InputRecipe& recipe);

/// Nodes and edges for Graphviz.
std::string graph_dot(const ProgramGraph& graph);

}  // namespace shardlab
