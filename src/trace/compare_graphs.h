// compare_graphs.h - the graphs of all ranks, walked together (T-63). Equality is modulo parts that
// may differ between ranks of one program: elements of constants, shapes of pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

/// The first place where two graphs part.
struct GraphDifference {
  std::size_t node = 0;
  std::string a, b;  ///< both nodes; "(ends)" where a graph has no more
};
/// Whether a node counts as another one where its place in the program's text is another.
enum class Places : std::uint8_t { kCompared, kIgnored };
std::optional<GraphDifference> first_difference(const ProgramGraph& a, const ProgramGraph& b,
                                                Places places = Places::kCompared);

/// Graphs of one rank each, joined where they are the same: each of the result lists its ranks. In
/// the order of their first ranks. `rank_of[i]` is the rank of graphs[i].
std::vector<ProgramGraph> joined(std::vector<ProgramGraph> graphs,
                                 const std::vector<std::int64_t>& rank_of);

}  // namespace shardlab
