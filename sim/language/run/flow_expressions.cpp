// Expressions of the walk. Sizes are no content: they follow from the rank where the value does.
#include <algorithm>
#include <cmath>

#include "sim/language/run/call_names.h"
#include "sim/language/run/flow_walk.h"
#include "sim/language/syntax/ast_walk.h"

namespace shardlab {

FlowWalk::Held FlowWalk::evaluate(const ast::Expression& at) {
  return std::visit([&](const auto& node) { return eval(at, node); }, at.node);
}

FlowWalk::Held FlowWalk::computed(std::uint32_t begin, const Ids& from) {
  const Id made = node(Kind::kComputed, begin, "", from);
  Held held = fresh(made);
  state_.memory[made].content = {made};
  return held;
}

FlowWalk::Held FlowWalk::number_at(Kind kind, std::uint32_t begin, const std::string& mesh_dim) {
  const Id made = node(kind, begin, mesh_dim);
  graph_.nodes_[made].name = mesh_dim;
  return {.nodes = {made}};
}

FlowWalk::Held FlowWalk::part_along(Held mesh, const std::string& mesh_dim) {
  mesh.text = mesh_dim;
  return mesh;
}

FlowWalk::Held FlowWalk::size_of(const ast::Expression& at, const Held& value) {
  Held held;
  Ids from;
  for (const Id id : value.memory) {
    const auto found = state_.memory.find(id);
    if (found != state_.memory.end() && found->second.list) unite(from, found->second.content);
  }
  if (reaches(content(value), {Kind::kRank, Kind::kReceived})) unite(from, content(value));
  held.nodes = {node(Kind::kComputed, at.span.begin, "size", from)};
  return held;
}

// A list that a collective has filled with what each rank has.
bool FlowWalk::has_entries(const Held& value) const {
  return std::ranges::any_of(value.memory, [&](Id id) {
    const auto found = state_.memory.find(id);
    if (found == state_.memory.end() || !found->second.list) return false;
    const Ids all = content(fresh(id));
    return std::ranges::any_of(all, [&](Id one) { return graph_.nodes_[one].entry; });
  });
}

FlowWalk::Held FlowWalk::eval(const ast::Expression& at, const ast::Constant& node) {
  Held held;
  held.literal = at.span;
  if (const auto* whole = std::get_if<std::int64_t>(&node.value)) {
    held.number = static_cast<double>(*whole);
  } else if (const auto* real = std::get_if<double>(&node.value)) {
    held.number = *real;
  } else if (const auto* text = std::get_if<std::string>(&node.value)) {
    held.text = *text;
  }
  return held;
}

FlowWalk::Held FlowWalk::eval(const ast::Expression& at, const ast::Name& node) {
  return read(node.id, at.span.begin);
}

FlowWalk::Held FlowWalk::eval(const ast::Expression& at, const ast::Attribute& node) {
  const Held object = evaluate(*node.object);
  const std::uint32_t begin = node.name_span.begin;
  if (is_rank_member(node.name) && (object.mesh || object.module))
    return number_at(Kind::kRank, begin);
  if (object.mesh) {
    if (names_size(node.name)) return number_at(Kind::kWorld, begin);
    return object;
  }
  if (object.module) {
    if (names_world(node.name)) return number_at(Kind::kWorld, begin);
    return object;
  }
  if (is_rank_member(node.name)) return number_at(Kind::kRank, begin);
  if (node.name == "grad") return gradient_of(object);
  static const std::set<std::string, std::less<>> kAbout = {
      "dtype",  "device",      "type",    "placements", "is_leaf",   "requires_grad",
      "layout", "device_mesh", "is_cuda", "dim",        "reduce_op", "needs_input_grad"};
  if (kAbout.contains(node.name)) return {};
  if (names_size(node.name)) return size_of(at, object);
  Held held = object;
  held.items.clear();
  held.definitions.clear();
  for (const Id id : object.memory) unite(held.memory, state_.memory[id].items);
  return held;
}

FlowWalk::Held FlowWalk::eval(const ast::Expression& at, const ast::Unary& node) {
  const Held operand = evaluate(*node.operand);
  Held held = computed(at.span.begin, content(operand));
  if (operand.memory.empty()) {
    held.nodes = held.memory;
    held.memory.clear();
  }
  if (operand.number && node.op == ast::UnaryOp::kNegative)
    held = operand, held.number = -*operand.number;
  return held;
}

// A value that is multiplied, or divided, by a number of the text.
void FlowWalk::note_factor(Id id, ast::BinaryOp op, const Held& left, const Held& right) {
  const bool divides = op == ast::BinaryOp::kDiv;
  if (!divides && op != ast::BinaryOp::kMul) return;
  const bool first = !divides && left.number && !right.number;
  if (!first && (!right.number || left.number)) return;
  const Held& number = first ? left : right;
  const bool inverse = divides || (number.ratio && *number.number != 0);
  const double factor = inverse && !divides ? 1 / *number.number : *number.number;
  const double whole = std::round(factor);
  if (whole < 2 || std::fabs(factor - whole) > 1e-6 * whole) return;
  graph_.nodes_[id].factor = whole;
  graph_.nodes_[id].literal = number.literal;
  graph_.nodes_[id].divides = inverse;
}

FlowWalk::Held FlowWalk::eval(const ast::Expression& at, const ast::Binary& node) {
  const Held left = evaluate(*node.left), right = evaluate(*node.right);
  if (left.number && right.number) {
    Held held;
    const double a = *left.number, b = *right.number;
    if (node.op == ast::BinaryOp::kAdd) held.number = a + b;
    if (node.op == ast::BinaryOp::kSub) held.number = a - b;
    if (node.op == ast::BinaryOp::kMul) held.number = a * b;
    if (node.op == ast::BinaryOp::kDiv && b != 0) held.number = a / b;
    held.ratio = node.op == ast::BinaryOp::kDiv;
    if (held.ratio) held.literal = right.literal;
    if (held.number) return held;
  }
  Ids from = content(left);
  unite(from, content(right));
  const std::string what(to_string(node.op));
  const Id made = this->node(Kind::kComputed, at.span.begin, what, from);
  graph_.nodes_[made].op = what;
  note_factor(made, node.op, left, right);
  Held held;
  if (left.memory.empty() && right.memory.empty()) {
    held.nodes = {made};
    return held;
  }
  held = fresh(made);
  Memory& memory = state_.memory[made];
  memory = {.content = {made}};
  for (const Held* side : {&left, &right}) {  // lists: [a] * 2, [a] + [b]
    for (const Id id : side->memory) {
      const auto list = state_.memory.find(id);
      if (list == state_.memory.end() || !list->second.list) continue;
      state_.memory[made].list = true;
      unite(state_.memory[made].items, list->second.items);
    }
  }
  if (!left.number && right.number && state_.memory[made].list) {
    state_.memory[made].length = static_cast<std::int64_t>(*right.number);
    state_.memory[made].literal = right.literal;
  }
  return held;
}

FlowWalk::Held FlowWalk::eval(const ast::Expression& at, const ast::Compare& node) {
  Ids from;
  bool tensors = false;
  for (const auto& operand : node.operands) {
    const Held held = evaluate(*operand);
    note_read(operand->span.begin, held);
    unite(from, content(held));
    tensors = tensors || !held.memory.empty();
  }
  Held held = computed(at.span.begin, from);
  for (const Id id : held.memory) graph_.nodes_[id].op = "comparison";
  if (!tensors) std::swap(held.nodes, held.memory);
  return held;
}

FlowWalk::Held FlowWalk::eval(const ast::Expression&, const ast::Logical& node) {
  Held held;
  for (const auto& operand : node.operands) unite(held, evaluate(*operand));
  return held;
}

FlowWalk::Held FlowWalk::eval(const ast::Expression&, const ast::Conditional& node) {
  const Held condition = evaluate(*node.condition);
  const Ids outer = control_;
  unite(control_, {decides(node.condition->span.begin, content(condition))});
  Held held = evaluate(*node.when_true);
  unite(held, evaluate(*node.when_false));
  unite(held.nodes, control_);
  control_ = outer;
  return held;
}

// A part that is taken by the rank's number out of what all ranks hold.
void FlowWalk::note_part(const ast::Expression& at, const Held& object, const Held& index) {
  const bool by_rank = reaches(content(index), {Kind::kRank});
  if (by_rank && !reaches(content(object), {Kind::kRank, Kind::kReceived, Kind::kFromOne}, true)) {
    graph_.parts_by_rank.insert(at.span);
  }
}

FlowWalk::Held FlowWalk::eval(const ast::Expression& at, const ast::Subscript& node) {
  const Held object = evaluate(*node.object), index = evaluate(*node.index);
  if (object.mesh) return part_along(object, index.text);
  if (!object.items.empty() && index.number) {
    const auto place = static_cast<std::int64_t>(*index.number);
    const auto count = static_cast<std::int64_t>(object.items.size());
    if (place >= -count && place < count) {
      return object.items[static_cast<std::size_t>(place < 0 ? place + count : place)];
    }
  }
  note_part(at, object, index);
  Held held = item_of(object);
  Ids from = content(held);
  unite(from, content(index));
  unite(held.nodes, {this->node(Kind::kComputed, at.span.begin, "[]", from)});
  return held;
}

FlowWalk::Held FlowWalk::display(const ast::Expression& at, std::vector<Held> items) {
  const Id made = node(Kind::kComputed, at.span.begin, "list");
  Memory memory{.content = control_, .length = 0, .list = true};
  for (const Held& item : items) {
    unite(memory.items, item.memory);
    unite(memory.content, item.nodes);
  }
  memory.length = static_cast<std::int64_t>(items.size());
  state_.memory[made] = std::move(memory);
  Held held = fresh(made);
  for (const Held& item : items)
    held.functions.insert(item.functions.begin(), item.functions.end());
  held.items = std::move(items);
  return held;
}

FlowWalk::Held FlowWalk::eval(const ast::Expression& at, const ast::Comprehension& node) {
  const Ids outer = control_;
  std::vector<std::pair<Variable, std::optional<Held>>> hidden;
  std::optional<double> length;
  SourceSpan literal;
  for (const ast::Comprehension::Loop& each : node.loops) {
    const Held items = evaluate(*each.iterable);
    length = node.loops.size() == 1 && each.conditions.empty() ? items.number : std::nullopt;
    literal = items.literal;
    Ids passes = items.nodes;
    for (const Id id : items.memory) {
      if (state_.memory[id].list) unite(passes, state_.memory[id].content);
    }
    const Id decision = decides(each.iterable->span.begin, passes);
    graph_.nodes_[decision].name = "passes";
    unite(control_, {decision});
    std::vector<std::string> names;
    ast::collect_targets(*each.target, names);
    Held item = item_of(items);
    if (has_entries(items)) {
      item.nodes = {this->node(Kind::kGathered, each.iterable->span.begin, "", content(item))};
      item.memory.clear();
    }
    for (const std::string& name : names) {
      const Variable variable{scope_of(name), name};
      const auto known = state_.variables.find(variable);
      hidden.emplace_back(
          variable, known != state_.variables.end() ? std::optional(known->second) : std::nullopt);
      state_.variables[variable] = item;
    }
    for (const auto& condition : each.conditions) {
      unite(control_, {decides(condition->span.begin, content(evaluate(*condition)))});
    }
  }
  std::vector<Held> made;
  if (node.key) made.push_back(evaluate(*node.key));
  made.push_back(evaluate(*node.element));
  for (auto& [variable, held] : hidden) {
    if (held) state_.variables[variable] = *held;
  }
  Held held = display(at, std::move(made));
  held.items.clear();
  Memory& memory = state_.memory[held.memory[0]];
  memory.length = static_cast<std::int64_t>(length.value_or(0));
  memory.literal = literal;
  control_ = outer;
  return held;
}

FlowWalk::Held FlowWalk::eval(const ast::Expression& at, const ast::Walrus& node) {
  const Held value = evaluate(*node.value);
  define(node.name, value, at.span.begin, false);
  return value;
}

FlowWalk::Held FlowWalk::eval(const ast::Expression&, const ast::Starred& node) {
  return item_of(evaluate(*node.value));
}

// Lists, tuples, sets, dicts, texts: all their parts together.
template <typename Other>
FlowWalk::Held FlowWalk::eval(const ast::Expression& at, const Other&) {
  std::vector<Held> parts;
  ast::for_each_part(at, [&](const ast::Expression& part) {
    parts.push_back(evaluate(part));
    note_read(part.span.begin, parts.back());
    if constexpr (std::is_same_v<Other, ast::FormatString>) {
      unite(graph_.shown_[part.span.begin], content(parts.back()));
    }
  });
  if constexpr (std::is_same_v<Other, ast::List> || std::is_same_v<Other, ast::Tuple> ||
                std::is_same_v<Other, ast::Dict> || std::is_same_v<Other, ast::Set>) {
    return display(at, std::move(parts));
  } else {  // a slice, a text
    Held held;
    for (const Held& part : parts) unite(held.nodes, content(part));
    return held;
  }
}

void FlowWalk::note_read(std::uint32_t begin, const Held& value) {
  if (!value.memory.empty()) unite(graph_.reads_[begin], content(value));
}

}  // namespace shardlab
