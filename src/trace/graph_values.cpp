// Last uses are noted once, before anything runs, so that freeing values reads only the inputs and
// results of one node.
#include "trace/graph_values.h"

#include "base/error.h"

namespace shardlab {

namespace {

void for_each_value_of(const GraphNode& node, const auto& visit) {
  for (const GraphArgument& argument : node.args) for_each_value(argument, visit);
  for (const GraphResult& result : node.results) {
    if (result.value.id >= 0) visit(result.value);
  }
}

}  // namespace

GraphValues::GraphValues(const ProgramGraph& graph)
    : graph_(graph), values_(static_cast<std::size_t>(graph.values)), last_use_(values_.size(), 0) {
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    for_each_value_of(graph.nodes[node],
                      [&](const ValueRef& value) { last_use_[index(value)] = node; });
  }
  for (const auto* kept : {&graph.left, &graph.outputs}) {
    for (const ValueRef& value : *kept) {
      if (value.id >= 0) last_use_[index(value)] = graph.nodes.size();
    }
  }
}

const DTensor& GraphValues::given(ValueRef value) const {
  const DTensor& x = (*this)[value];
  if (!x.defined()) {
    fail(Fix{kCaptureProgram}, "no node before this one gives value {}", value.id);
  }
  return x;
}

void GraphValues::let_go(std::size_t node) {
  for_each_value_of(graph_.nodes[node], [&](const ValueRef& value) {
    const std::size_t i = index(value);
    if (last_use_[i] == node) values_[i] = {};
  });
}

std::size_t GraphValues::index(ValueRef value) const {
  if (value.id < 0 || value.id >= graph_.values) {
    fail(Fix{kCaptureProgram}, "the graph has {} values, and no value {}", graph_.values, value.id);
  }
  return static_cast<std::size_t>(value.id);
}

}  // namespace shardlab
