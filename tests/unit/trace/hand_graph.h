// hand_graph.h - graphs that tests write by hand, as lines, and run on two ranks.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/unit/dispatch/op_mesh.h"
#include "tests/unit/trace/graph_lines.h"
#include "trace/replay.h"

namespace shardlab::test {

/// A program of these nodes on two ranks, mesh {m0:2}, whose values up to `values` are given;
/// `more`: further fields of its header.
inline ProgramGraph graph_of(int values, const std::string& left, const std::string& nodes,
                             const std::string& more = "") {
  return read_graph_lines(
             fmt::format("program p(world=2, seed=1, meshes=[{{shape: [2]}}], policies={{}}, "
                         "n_values={}, left=[{}]{})\n{}",
                         values, left, more, nodes))
      .at(0);
}

/// The running rank's values of the graph's results, one after the other.
inline std::vector<std::vector<double>> replayed_values(const ProgramGraph& graph,
                                                        const OpMesh& mesh,
                                                        const std::vector<DTensor>& inputs = {}) {
  std::vector<std::vector<double>> values;
  for (const DTensor& x : replay(graph, mesh.layout()->arena(), inputs).left) {
    values.push_back(local_values(x));
  }
  return values;
}

}  // namespace shardlab::test
