// A value is known by the nodes that made it and by the memory it is in, whose content changes with
// writes: names, views and lists share memory, so that a write through one shows in all. A
// definition is a node that nothing follows from; a later use follows from the content.
#include "sim/language/run/flow_walk.h"

#include <algorithm>
#include <iterator>

#include "base/dtype.h"
#include "sim/language/run/call_names.h"
#include "sim/language/values/builtin.h"

namespace shardlab {

namespace {

constexpr int kMostPasses = 6;
constexpr std::int64_t kMostSteps = 400'000;  // beyond it loops are passed through once

// A further name for a value that has one: b = a, g = w.grad.
bool names_again(const ast::Expression& value) {
  if (value.is<ast::Name>()) return true;
  const auto* attribute = value.get<ast::Attribute>();
  return attribute != nullptr && (attribute->name == "grad" || attribute->name == "data");
}

}  // namespace

FlowWalk::FlowWalk(const ast::Program& program, DefUse& graph) : program_(program), graph_(graph) {}

void FlowWalk::run() {
  random_ = node(Kind::kComputed, 0, "random state");
  // Messages go backwards in the text, too.
  for (std::size_t before = 0, now = 1; before != now;) {
    before = sent_.size();
    state_ = {};
    waiting_.clear();
    execute(program_.body);
    now = sent_.size();
  }
  std::vector<std::string> names;
  for (const auto& [variable, held] : state_.variables) {
    end_of(held);
    if (variable.first == 0) names.push_back(variable.second);
  }
  for (const auto& [key, id] : known_) {
    if (std::get<0>(key) == Kind::kInput) names.push_back(std::get<3>(key));
  }
  for (const std::string& name : names) {
    const Held gradient = gradient_of(read(name, 0));
    unite(graph_.gradients_[name], content(gradient));
    unite(graph_.held_[{name, 0}], content(read(name, 0)));
  }
}

FlowWalk::Id FlowWalk::node(Kind kind, std::uint32_t begin, const std::string& what) {
  const auto [known, is_new] = known_.try_emplace({kind, begin, frames_.back().scope, what},
                                                  static_cast<Id>(graph_.nodes_.size()));
  if (is_new) {
    graph_.nodes_.push_back({.kind = kind, .begin = begin, .loop = loop_});
    changed_ = true;
  }
  return known->second;
}

FlowWalk::Id FlowWalk::node(Kind kind, std::uint32_t begin, const std::string& what,
                            const Ids& from) {
  const Id id = node(kind, begin, what);
  add_from(id, from);
  add_from(id, control_);
  return id;
}

void FlowWalk::add_from(Id id, const Ids& from) {
  Ids& all = graph_.nodes_[id].from;
  const std::size_t before = all.size();
  unite(all, from);
  changed_ = changed_ || all.size() != before;
}

FlowWalk::Ids FlowWalk::content(const Held& value) const {
  Ids all = value.nodes;
  Ids seen, open = value.memory;
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (std::ranges::binary_search(seen, id)) continue;
    unite(seen, {id});
    const auto found = state_.memory.find(id);
    if (found == state_.memory.end()) continue;
    unite(all, found->second.content);
    open.insert(open.end(), found->second.items.begin(), found->second.items.end());
  }
  return all;
}

bool FlowWalk::reaches(const Ids& some, std::initializer_list<Kind> kinds, bool past_parts) const {
  std::vector<bool> seen(graph_.nodes_.size());
  Ids open = some;
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (seen[id]) continue;
    seen[id] = true;
    const FlowNode& node = graph_.nodes_[id];
    if (std::ranges::find(kinds, node.kind) != kinds.end()) return true;
    const bool part = past_parts && std::ranges::any_of(graph_.parts_by_rank, [&](SourceSpan span) {
                        return span.begin == node.begin;
                      });
    if (part) {
      for (const Id from : node.from) {
        if (!reaches({from}, {Kind::kRank})) open.push_back(from);
      }
      continue;
    }
    open.insert(open.end(), node.from.begin(), node.from.end());
  }
  return false;
}

void FlowWalk::unite(Ids& to, const Ids& from) {
  if (from.empty()) return;
  Ids both;
  both.reserve(to.size() + from.size());
  std::ranges::set_union(to, from, std::back_inserter(both));
  to = std::move(both);
}

bool FlowWalk::unite(Held& to, const Held& from) {
  const Held before = to;
  unite(to.nodes, from.nodes);
  unite(to.memory, from.memory);
  unite(to.definitions, from.definitions);
  to.functions.insert(from.functions.begin(), from.functions.end());
  if (to.function_class.empty()) to.function_class = from.function_class;
  to.mesh = to.mesh || from.mesh;
  to.module = to.module || from.module;
  if (to.number != from.number) to.number.reset();
  if (to.literal != from.literal) to.literal = {};
  to.ratio = to.ratio || from.ratio;
  if (to.text != from.text) to.text.clear();
  if (to.items.size() != from.items.size()) {
    to.items.clear();
  } else {
    for (std::size_t i = 0; i < to.items.size(); ++i) unite(to.items[i], from.items[i]);
  }
  return !(to == before);
}

bool FlowWalk::unite(State& to, const State& from) {
  bool more = false;
  for (const auto& [name, held] : from.variables) {
    const auto [known, is_new] = to.variables.try_emplace(name, held);
    more = is_new || more;
    if (!is_new && !(known->second == held)) more = unite(known->second, held) || more;
  }
  for (const auto& [id, memory] : from.memory) {
    const auto [known, is_new] = to.memory.try_emplace(id, memory);
    more = is_new || more;
    if (is_new || known->second == memory) continue;
    const Memory before = known->second;
    unite(known->second.content, memory.content);
    unite(known->second.items, memory.items);
    if (known->second.length != memory.length) known->second.length = 0;
    more = more || !(known->second == before);
  }
  return more;
}

FlowWalk::Held FlowWalk::fresh(Id made) const { return {.memory = {made}}; }

// An index or a loop takes an item out of a list, or a part out of a tensor.
FlowWalk::Held FlowWalk::item_of(const Held& value) const {
  Held item;
  item.nodes = value.nodes;
  item.functions = value.functions;
  item.mesh = value.mesh;
  for (const Id id : value.memory) {
    const auto found = state_.memory.find(id);
    const bool list = found != state_.memory.end() && found->second.list;
    if (list) {
      unite(item.nodes, found->second.content);
      unite(item.memory, found->second.items);
    } else {
      unite(item.memory, {id});
      if (found != state_.memory.end()) unite(item.memory, found->second.items);
    }
  }
  return item;
}

// A write to one known memory replaces its content, which the writing node is made of.
void FlowWalk::write(const Held& value, const Ids& from, std::uint32_t begin, Kind kind) {
  Ids all = value.memory;
  for (const Id id : value.memory) {
    const auto found = state_.memory.find(id);
    if (found != state_.memory.end() && found->second.list) unite(all, found->second.items);
  }
  for (const Id id : all) {
    Memory& memory = state_.memory[id];
    if (memory.list) continue;
    Ids made = memory.content;
    unite(made, from);
    const Id written = node(kind, begin, "to " + std::to_string(id), made);
    if (all.size() == 1) memory.content.clear();
    unite(memory.content, {written});
  }
}

FlowWalk::Held FlowWalk::gradient_of(const Held& value) {
  Held held;
  Ids all = value.memory;
  for (const Id id : value.memory) unite(all, state_.memory[id].items);
  for (const Id id : all) {
    unite(held.memory,
          {node(Kind::kComputed, graph_.nodes_[id].begin, "gradient of " + std::to_string(id))});
  }
  return held;
}

int FlowWalk::scope_of(const std::string& name) const {
  for (int scope = frames_.back().scope; scope != 0; scope = scopes_[scope].around) {
    const ast::Function& function = *scopes_[scope].function;
    if (std::ranges::count(function.globals, name) > 0) return 0;
    if (function.binds(name)) return scope;
  }
  return 0;
}

FlowWalk::Held FlowWalk::read(const std::string& name, std::uint32_t begin) {
  const auto found = state_.variables.find({scope_of(name), name});
  if (found != state_.variables.end()) {
    Held value = found->second;
    value.definitions.clear();
    return value;
  }
  Held value;
  static const std::set<std::string, std::less<>> kModules = {
      "torch", "F", "dist", "math", "funcol", "aten", "functools", "spmd"};
  if (name == "mesh") {
    value.mesh = true;
  } else if (names_rank(name)) {
    return number_at(Kind::kRank, begin);
  } else if (names_world(name)) {
    return number_at(Kind::kWorld, begin);
  } else if (kModules.contains(name) || find_function(name) != nullptr || parse_dtype(name)) {
    value.module = true;
  } else {
    const int outer = std::exchange(frames_.back().scope, 0);
    const Id input = node(Kind::kInput, 0, name);
    frames_.back().scope = outer;
    graph_.nodes_[input].name = name;
    value = fresh(input);
    Memory& memory = state_.memory[input];
    if (memory.content.empty()) memory.content = {input};
  }
  return value;
}

std::string FlowWalk::full(const std::string& name) const {
  const int scope = frames_.back().scope;
  return scope == 0 ? name : scopes_[scope].function->path + "." + name;
}

// The last value of a name counts with all writes until it gets another one.
void FlowWalk::end_of(const Held& variable) {
  for (const Id id : variable.definitions) {
    const FlowNode& defined = graph_.nodes_[id];
    unite(graph_.held_[{defined.name, defined.begin}], content(variable));
  }
}

void FlowWalk::bind(const std::string& name, Held value) {
  Held& variable = state_.variables[{scope_of(name), name}];
  end_of(variable);
  variable = std::move(value);
}

void FlowWalk::define(const std::string& name, const Held& value, std::uint32_t begin, bool alias) {
  const Id id = node(Kind::kDefined, begin, name, content(value));
  graph_.nodes_[id].name = full(name);
  graph_.nodes_[id].alias = alias;
  Held variable = value;
  unite(variable.nodes, control_);
  variable.definitions = {id};
  bind(name, std::move(variable));
}

void FlowWalk::execute(const ast::Block& block) {
  const Ids outer = control_;
  for (const ast::Statement& statement : block) {
    ++steps_;
    control_ = outer;
    unite(control_, frames_.back().left);
    if (!left_loops_.empty()) unite(control_, left_loops_.back());
    std::visit([&](const auto& node) { run_node(statement, node); }, statement.node);
  }
  control_ = outer;
}

void FlowWalk::assign(const ast::Expression& target, const Held& value, std::uint32_t begin,
                      bool alias) {
  if (const auto* name = target.get<ast::Name>()) {
    return define(name->id, value, begin, alias);
  }
  const auto* tuple = target.get<ast::Tuple>();
  const auto* list = target.get<ast::List>();
  if (tuple != nullptr || list != nullptr) {
    const auto& parts = tuple != nullptr ? tuple->items : list->items;
    const bool pairs = value.items.size() == parts.size();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      assign(*parts[i], pairs ? value.items[i] : item_of(value), begin, alias && pairs);
    }
    return;
  }
  if (const auto* starred = target.get<ast::Starred>()) {
    return assign(*starred->value, value, begin, false);
  }
  if (const auto* attribute = target.get<ast::Attribute>()) {
    const Held object = evaluate(*attribute->object);
    const Held written = attribute->name == "grad" ? gradient_of(object) : object;
    if (attribute->name == "grad") {  // the former one does not count
      for (const Id id : written.memory) state_.memory[id].content.clear();
    }
    for (const Id id : written.memory) {
      Memory& memory = state_.memory[id];
      if (attribute->name == "grad" || attribute->name == "data") continue;
      unite(memory.items, value.memory);  // ctx.x = v
      unite(memory.content, value.nodes);
    }
    return write(written, content(value), begin);
  }
  const auto* subscript = target.get<ast::Subscript>();
  if (subscript == nullptr) return;
  const Held object = evaluate(*subscript->object), index = evaluate(*subscript->index);
  Ids from = content(value);
  unite(from, content(index));
  for (const Id id : object.memory) {
    Memory& memory = state_.memory[id];
    if (!memory.list) continue;
    unite(memory.items, value.memory);
    unite(memory.content, from);
  }
  write(object, from, begin);
}

void FlowWalk::run_node(const ast::Statement&, const ast::ExpressionStatement& node) {
  evaluate(*node.value);
}

void FlowWalk::run_node(const ast::Statement& at, const ast::Assign& node) {
  const Held value = evaluate(*node.value);
  const auto* tuple = node.value->get<ast::Tuple>();
  const bool alias =
      tuple != nullptr
          ? std::ranges::all_of(tuple->items, [](const auto& item) { return names_again(*item); })
          : names_again(*node.value);
  for (const auto& target : node.targets) assign(*target, value, at.span.begin, alias);
}

void FlowWalk::run_node(const ast::Statement& at, const ast::AugmentedAssign& node) {
  const Held before = evaluate(*node.target), value = evaluate(*node.value);
  Held after = before;
  Ids from = content(before);
  unite(from, content(value));
  if (before.memory.empty()) {
    after = {};
    after.nodes = {this->node(Kind::kComputed, at.span.begin, "augmented", from)};
  } else {
    write(before, from, at.span.begin);
    after = evaluate(*node.target);
    bool list = false;
    for (const Id id : before.memory) {
      if (state_.memory[id].list) unite(state_.memory[id].items, value.memory);
      list = list || state_.memory[id].list;
    }
    if (!list) after.nodes.clear();  // views of what it was
  }
  for (const Id id : content(after)) {
    if (graph_.nodes_[id].begin == at.span.begin) note_factor(id, node.op, before, value);
  }
  const auto* name = node.target->get<ast::Name>();
  if (name != nullptr) {
    define(name->id, after, at.span.begin, false);
  } else if (before.memory.empty()) {
    assign(*node.target, after, at.span.begin, false);
  }
}

FlowWalk::Id FlowWalk::decides(std::uint32_t begin, const Ids& by) {
  return node(Kind::kDecides, begin, "", by);
}

void FlowWalk::run_node(const ast::Statement& at, const ast::If& node) {
  const Ids outer = control_;
  std::optional<State> after;
  bool otherwise = false;
  for (const ast::If::Branch& branch : node.branches) {
    if (branch.condition) {
      const Held condition = evaluate(*branch.condition);
      note_read(branch.condition->span.begin, condition);
      unite(control_, {decides(branch.condition->span.begin, content(condition))});
    } else {
      otherwise = true;
    }
    const State before = state_;
    execute(branch.body);
    if (after) {
      unite(*after, state_);
    } else {
      after = state_;
    }
    state_ = before;
  }
  if (otherwise) {
    state_ = std::move(*after);
  } else {
    unite(state_, *after);
  }
  static_cast<void>(at);
  control_ = outer;
}

template <typename Pass>
void FlowWalk::loop(Id decides, const Pass& pass) {
  const Ids outer = control_;
  unite(control_, {decides});
  left_loops_.emplace_back();
  ++loops_;
  const std::uint32_t around = std::exchange(loop_, decides + 1);
  const int most = loops_ > 1 ? kMostPasses / 2 : kMostPasses;
  for (int i = 0; i < most; ++i) {
    const bool changed = std::exchange(changed_, false);
    const State before = state_;
    pass();
    State both = before;
    const bool more = unite(both, state_);
    state_ = std::move(both);
    const bool settled = !more && !changed_;
    changed_ = changed_ || changed;
    if (settled || steps_ > kMostSteps) break;
  }
  --loops_;
  loop_ = around;
  left_loops_.pop_back();
  control_ = outer;
}

void FlowWalk::leave_loop() {
  if (!left_loops_.empty()) unite(left_loops_.back(), control_);
}

void FlowWalk::run_node(const ast::Statement& at, const ast::For& node) {
  const Held items = evaluate(*node.iterable);
  Ids passes = items.nodes;
  for (const Id id : items.memory) {
    if (state_.memory[id].list) unite(passes, state_.memory[id].content);
  }
  const Id decision = decides(at.span.begin, passes);
  graph_.nodes_[decision].name = "passes";
  loop(decision, [&] {
    const auto* name = node.target->get<ast::Name>();
    Held item = item_of(items);
    // A loop takes all entries.
    if (has_entries(items))
      item.nodes = {this->node(Kind::kGathered, at.span.begin, "", content(item))};
    if (has_entries(items)) item.memory.clear();
    if (name != nullptr) {
      bind(name->id, item);
    } else {
      assign(*node.target, item, node.target->span.begin, true);
    }
    execute(node.body);
  });
  execute(node.otherwise);
}

void FlowWalk::run_node(const ast::Statement&, const ast::While& node) {
  const Held first = evaluate(*node.condition);
  const Id decision = decides(node.condition->span.begin, content(first));
  loop(decision, [&] {
    const Held condition = evaluate(*node.condition);
    note_read(node.condition->span.begin, condition);
    add_from(decision, content(condition));
    execute(node.body);
  });
  execute(node.otherwise);
}

void FlowWalk::run_node(const ast::Statement&, const ast::Def& node) {
  const ast::Function& function = *node.function;
  std::vector<Held>& defaults = defaults_[&function];
  defaults.clear();
  for (const ast::Parameter& parameter : function.parameters) {
    defaults.push_back(evaluate(parameter.default_value));
  }
  methods_[function.path] = &function;
  Held value;
  value.functions = {{&function, frames_.back().scope}};
  bind(function.name, std::move(value));
}

void FlowWalk::run_node(const ast::Statement&, const ast::Class& node) {
  for (const ast::Statement& member : node.body) {
    const auto* def = member.get<ast::Def>();
    if (def != nullptr) methods_[def->function->path] = def->function.get();
  }
  Held value;
  value.function_class = node.path;
  bind(node.name, std::move(value));
}

void FlowWalk::run_node(const ast::Statement&, const ast::Return& node) {
  Held value = evaluate(node.value);
  unite(value.nodes, control_);
  Held& result = frames_.back().result;
  if (result == Held()) {
    result = value;
  } else {
    unite(result, value);
  }
  unite(frames_.back().left, control_);
}

void FlowWalk::run_node(const ast::Statement& at, const ast::With& node) {
  const Ids outer = control_;
  Ids by;
  for (const ast::With::Item& item : node.items) {
    const Held context = evaluate(*item.context);
    unite(by, content(context));
    if (item.target) assign(*item.target, context, at.span.begin, true);
  }
  if (reaches(by, {Kind::kRank})) unite(control_, {decides(at.span.begin, by)});
  execute(node.body);
  control_ = outer;
}

void FlowWalk::run_node(const ast::Statement& at, const ast::Assert& node) {
  const Held condition = evaluate(*node.condition);
  note_read(node.condition->span.begin, condition);
  static_cast<void>(evaluate(node.message));
  this->node(Kind::kAsserted, at.span.begin, "", content(condition));
}

void FlowWalk::run_node(const ast::Statement&, const ast::Try& node) {
  const int caught = node.handlers.empty() ? 0 : 1;
  tries_ += caught;
  execute(node.body);
  tries_ -= caught;
  for (const ast::Try::Handler& handler : node.handlers) {
    const State before = state_;
    execute(handler.body);
    unite(state_, before);
  }
  execute(node.otherwise);
  execute(node.last);
}

void FlowWalk::run_node(const ast::Statement&, const ast::Delete& node) {
  for (const auto& item : node.items) evaluate(*item);
}

}  // namespace shardlab
