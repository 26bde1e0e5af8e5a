// A read is the only break after which a capture continues: the graph keeps the elements that were
// read, and a replay that reads others is refused.
#include "trace/graph_break.h"

#include "base/text.h"

namespace shardlab {

std::string GraphBreak::text(std::string_view indent) const {
  std::string text = fmt::format("{}{}\n", indent, gb_type);
  if (!context.empty()) text += fmt::format("{}  context      {}\n", indent, context);
  if (!explanation.empty()) text += fmt::format("{}  explanation  {}\n", indent, explanation);
  for (const std::string& hint : hints) text += fmt::format("{}  hint         {}\n", indent, hint);
  return text;
}

Error error_of(const GraphBreak& graph_break) {
  Error error(ErrorKind::kUnsupported, "graph break: " + graph_break.gb_type);
  if (!graph_break.context.empty()) error.with("context", graph_break.context);
  if (!graph_break.explanation.empty()) error.with("explanation", graph_break.explanation);
  error.with("fix", text_of_list(graph_break.hints, "\n"));
  return error;
}

namespace {

GraphBreak at_hooks(const GraphNode& node) {
  return {.gb_type = "backward hooks need backward capture",
          .context = node.line > 0 ? fmt::format("backward in line {}", node.line) : "",
          .explanation = "what the program's hooks do inside of backward is not part of the graph",
          .hints = {"take the hooks off while the program is captured"}};
}

GraphBreak at_read(const GraphNode& read) {
  const ValueRef* value =
      read.args.empty() ? nullptr : std::get_if<ValueRef>(&read.args.front().value);
  return {.gb_type = "data-dependent value",
          .context = fmt::format("%{} is read{}", value != nullptr ? value->id : -1,
                                 read.line > 0 ? fmt::format(" in line {}", read.line) : ""),
          .explanation = "what follows may rest on its elements: it holds while they are the same",
          .hints = {"keep it a tensor: where(), masked_fill()",
                    "capture the program again on the inputs that it is to run on"}};
}

}  // namespace

std::optional<GraphBreak> break_at(const GraphNode& node) {
  if (node.kind == NodeKind::kRead) return at_read(node);
  const bool hooks = node.kind == NodeKind::kBackward && node.name == kWithHooks;
  return hooks ? std::optional(at_hooks(node)) : std::nullopt;
}

std::vector<GraphBreak> breaks_of(const ProgramGraph& graph) {
  std::vector<GraphBreak> breaks;
  for (const GraphNode& node : graph.nodes) {
    if (auto here = break_at(node)) breaks.push_back(std::move(*here));
  }
  return breaks;
}

std::map<std::string, std::int64_t> counted(const std::vector<GraphBreak>& breaks) {
  std::map<std::string, std::int64_t> counts;
  for (const GraphBreak& one : breaks) ++counts[one.gb_type];
  return counts;
}

}  // namespace shardlab
