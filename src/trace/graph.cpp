// Questions about graphs that several places need.
#include "trace/graph.h"

#include <algorithm>
#include <array>

namespace shardlab {

namespace {

constexpr std::array<std::string_view, 31> kNodeKinds = {
    "input",      "const",      "op",          "factory",   "distribute",   "redistribute",
    "from_local", "to_local",   "collective",  "mesh",      "require_grad", "detach",
    "backward",   "deal",       "check_piece", "gradient",  "seed",         "drop_grad",
    "hook",       "hooks",      "remove_hook", "hook_call", "hook_gives",   "size",
    "number",     "size_guard", "read",        "wait",      "function",     "check_close",
    "look"};
constexpr std::array<std::string_view, 4> kGuardKinds = {"identity", "equality", "type", "rank"};

template <typename Kind, std::size_t N>
std::optional<Kind> named(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Kind>(found - names.begin());
}

}  // namespace

bool same_number(const Scalar& a, const Scalar& b) {
  return a == b || (a.category() == b.category() && a.text() == b.text());
}

bool GraphArgument::operator==(const GraphArgument& other) const {
  const auto* number = std::get_if<Scalar>(&value);
  const auto* others = std::get_if<Scalar>(&other.value);
  if (number != nullptr && others != nullptr) return same_number(*number, *others);
  return value == other.value;
}

bool InputRecipe::operator==(const InputRecipe& other) const {
  return init == other.init && std::ranges::equal(arguments, other.arguments, same_number) &&
         same_number(scale, other.scale) && std::ranges::equal(values, other.values, same_number) &&
         sizes == other.sizes && dynamic == other.dynamic;
}

std::string_view kind_name(NodeKind kind) { return kNodeKinds[static_cast<std::size_t>(kind)]; }

std::optional<NodeKind> parse_node_kind(std::string_view name) {
  return named<NodeKind>(kNodeKinds, name);
}

std::string_view to_string(Guard::Kind kind) { return kGuardKinds[static_cast<std::size_t>(kind)]; }

std::optional<Guard::Kind> parse_guard_kind(std::string_view name) {
  return named<Guard::Kind>(kGuardKinds, name);
}

bool ProgramGraph::of_rank(std::int64_t rank) const {
  if (ranks.empty()) return rank >= 0 && rank < world;
  return std::ranges::binary_search(ranks, rank);
}

std::string dim_name(const GraphMesh& mesh, std::size_t dim) {
  return mesh.names.empty() ? "m" + std::to_string(dim) : mesh.names.at(dim);
}

bool writes(const GraphNode& node, ValueRef value) {
  if (value.id < 0 || node.kind != NodeKind::kOp) return false;
  const std::string base = node.name.substr(0, node.name.find('.'));
  if (!base.ends_with('_') && node.name.find("out") == std::string::npos) return false;
  bool found = false;
  for (const GraphArgument& argument : node.args) {
    for_each_value(argument, [&](const ValueRef& taken) { found = found || taken == value; });
  }
  return found && std::ranges::any_of(node.results, [&](const GraphResult& result) {
           return result.value == value;
         });
}

std::int64_t collective_count(const ProgramGraph& graph) {
  std::int64_t count = 0;
  for (const GraphNode& node : graph.nodes) {
    count += std::ranges::count(node.collectives, false, &GraphCollective::waits);
  }
  return count;
}

}  // namespace shardlab
