// Two nodes are the same when they are equal without the parts that belong to a rank.
#include "trace/compare_graphs.h"

#include <algorithm>

#include "trace/digest.h"
#include "trace/graph_text.h"

namespace shardlab {

namespace {

void forget_piece(ValueType& type) {
  if (type.mesh >= 0) return;
  type.shape.clear();
  type.stride.clear();
}

// Without the parts that belong to a rank. The shape of a constant belongs to all: its elements do
// not.
GraphNode common(GraphNode node, Places places) {
  node.data.clear();
  if (places == Places::kIgnored) node.line = node.column = 0;
  if (node.kind != NodeKind::kConstant) {
    for (GraphResult& result : node.results) forget_piece(result.type);
  }
  for (GraphCollective& collective : node.collectives) {
    collective.shape.clear();
    collective.ranks.clear();
  }
  return node;
}

std::string text_at(const ProgramGraph& graph, std::size_t node) {
  return node < graph.nodes.size() ? node_text(graph, graph.nodes[node]) : "(ends)";
}

// The values that one rank held at its end, with the digest of each.
struct Left {
  std::vector<ValueRef> values;
  std::vector<std::uint64_t> digests;

  std::optional<std::uint64_t> digest_of(ValueRef value) const {
    const auto found = std::ranges::find(values, value);
    if (found == values.end()) return std::nullopt;
    return digests[static_cast<std::size_t>(found - values.begin())];
  }
};

// Whether a rank still holds a value may depend on a piece that is empty elsewhere: only values
// that every rank holds are kept.
void keep_common(ProgramGraph& graph, const std::vector<Left>& ranks) {
  std::erase_if(graph.left, [&](ValueRef value) {
    return std::ranges::any_of(ranks, [&](const Left& rank) { return !rank.digest_of(value); });
  });
  const bool known = !graph.digests.empty();
  graph.digests.clear();
  graph.left_digests.clear();
  if (!known) return;
  for (const Left& rank : ranks) {
    std::vector<std::uint64_t> digests;
    for (const ValueRef value : graph.left) digests.push_back(*rank.digest_of(value));
    graph.digests.push_back(combined_digest(digests));
  }
}

// The elements that another rank has: kept once while all ranks have the same.
void join(ProgramGraph& into, ProgramGraph& other, std::size_t ranks_before) {
  for (std::size_t i = 0; i < into.nodes.size(); ++i) {
    std::vector<std::vector<Scalar>>& data = into.nodes[i].data;
    std::vector<std::vector<Scalar>>& more = other.nodes[i].data;
    if (data.empty() || more.empty()) {
      data.clear();
      continue;
    }
    if (data.size() == 1 && data[0] == more[0]) continue;
    if (data.size() == 1) data.resize(ranks_before, data[0]);
    data.push_back(std::move(more[0]));
  }
}

}  // namespace

std::optional<GraphDifference> first_difference(const ProgramGraph& a, const ProgramGraph& b,
                                                Places places) {
  const std::size_t most = std::max(a.nodes.size(), b.nodes.size());
  for (std::size_t i = 0; i < most; ++i) {
    const bool both = i < a.nodes.size() && i < b.nodes.size();
    if (both && common(a.nodes[i], places) == common(b.nodes[i], places)) continue;
    return GraphDifference{i, text_at(a, i), text_at(b, i)};
  }
  return std::nullopt;
}

std::vector<ProgramGraph> joined(std::vector<ProgramGraph> graphs,
                                 const std::vector<std::int64_t>& rank_of) {
  std::vector<ProgramGraph> classes;
  std::vector<std::vector<Left>> left;  // by class, then by rank
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    ProgramGraph& graph = graphs[i];
    std::size_t known = 0;
    while (known < classes.size() && first_difference(classes[known], graph)) ++known;
    if (known == classes.size()) {
      left.push_back({{graph.left, graph.left_digests}});
      graph.ranks = {rank_of[i]};
      classes.push_back(std::move(graph));
      continue;
    }
    left[known].push_back({graph.left, graph.left_digests});
    join(classes[known], graph, classes[known].ranks.size());
    classes[known].ranks.push_back(rank_of[i]);
  }
  for (std::size_t i = 0; i < classes.size(); ++i) keep_common(classes[i], left[i]);
  return classes;
}

}  // namespace shardlab
