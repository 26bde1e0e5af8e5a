// graph_lines.h - graphs as tests write them by hand: the objects of graph_json.h, one line a node,
// with the parts of the node below it.
//
//   program "Two layers"(world=8, seed=0, meshes=[{shape: [2, 4], names: [dp, tp]}], ...)
//   guard type inputs.x = "f32[8@dp, 16]"    line 18
//   %0: f32[8@dp, 16] = input x(init=randn, scale=0.1)
//   %8: f32[8@dp, 16] = redistribute(%7, to=f32[8@dp, 16])    line 20:23
//       all_reduce(f32[4, 16], group=tp, ranks=[0, 1, 2, 3], reduce=sum)
//
// The results are before the "=", "_" for one that is not a tensor. An op is called by its name,
// every other node by its kind and its name. The brackets contain the arguments, then the fields
// that JSON has, by the same names. A plain tensor, or one that is on another mesh than the first
// or not contiguous, is marked behind its type: "f32[3, 2] local", "mesh=1", "stride=[1, 3]";
// placements that a type cannot express are "placements=[...]". The report of graph_text.h looks
// alike and leaves out what a reader does not need.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

///   fails  Value: a text that is not a graph, with line, column and field
std::vector<ProgramGraph> read_graph_lines(std::string_view text);

}  // namespace shardlab
