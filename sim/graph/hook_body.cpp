// A hook that is called again may have done something else: no function is made of two calls.
#include "sim/graph/hook_body.h"

#include <algorithm>
#include <iterator>

namespace shardlab {

namespace {

void add_values(const GraphNode& node, std::set<std::int32_t>& values) {
  for (const GraphArgument& argument : node.args) {
    for_each_value(argument, [&](const ValueRef& value) { values.insert(value.id); });
  }
  for (const GraphResult& result : node.results) {
    if (result.value.id >= 0) values.insert(result.value.id);
  }
}

}  // namespace

HookBody::HookBody(const ProgramGraph& graph, std::int32_t hook) {
  int calls = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    if (node.hook != hook) continue;
    if (node.kind == NodeKind::kHookCall && calls++ == 0) begin = i;
    if (node.kind == NodeKind::kHookGives && calls == 1) end = i;
  }
  if (calls > 1) why_not = "it is called more than once";
  if (calls == 1 && end == 0) why_not = "it fails";
  if (calls != 1 || end == 0) return;
  std::set<std::int32_t> inside, outside;
  for (const ValueRef value : graph.left) outside.insert(value.id);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    add_values(graph.nodes[i], i >= begin && i <= end ? inside : outside);
  }
  std::ranges::set_intersection(inside, outside, std::inserter(shared, shared.end()));
}

}  // namespace shardlab
