// Calls of the walk: defs are entered, functions of the language with an effect are known by name,
// and everything else makes a value of all its arguments.
#include <algorithm>
#include <array>
#include <cctype>

#include "sim/language/run/call_names.h"
#include "sim/language/run/flow_walk.h"
#include "sim/language/values/builtin.h"

namespace shardlab {

namespace {

constexpr std::size_t kDeepest = 12;

}  // namespace

const FlowWalk::Held* FlowWalk::keyword(const Arguments& given, std::string_view name) {
  for (const auto& [key, held] : given.keywords) {
    if (key == name) return &held;
  }
  return nullptr;
}

FlowWalk::Arguments FlowWalk::arguments_of(const ast::Call& call) {
  Arguments given;
  for (const ast::CallArgument& argument : call.arguments) {
    Held value = evaluate(*argument.value);
    if (argument.starred) value = item_of(value);
    const Held item = argument.keyword == ast::kDoubleStar ? item_of(value) : value;
    unite(given.all, item);
    given.all.items.clear();
    if (argument.keyword.empty()) {
      given.positional.push_back(std::move(value));
    } else {
      given.keywords.emplace_back(argument.keyword, std::move(value));
    }
  }
  return given;
}

FlowWalk::Held FlowWalk::eval(const ast::Expression& at, const ast::Call& node) {
  const auto* method = node.function->get<ast::Attribute>();
  const auto* name = node.function->get<ast::Name>();
  const std::string_view last = last_name(*node.function);
  const std::uint32_t begin = at.span.begin;
  if (own_collective(node) == OwnCollective::kFills && (sends(last) || receives(last))) {
    return message(last, node, begin, arguments_of(node));
  }
  if (last == "P2POp") return message(last, node, begin, arguments_of(node));
  if (own_collective(node) != OwnCollective::kNone) {
    return collective(node, begin, arguments_of(node));
  }
  if (method != nullptr) {
    const Held object = evaluate(*method->object);
    const Arguments given = arguments_of(node);
    if (!object.function_class.empty() && method->name == "apply") {
      return apply(object.function_class, begin, given);
    }
    const bool claims = method->name == "assert_type" || method->name == "mutate_type";
    if (object.module && claims && !given.positional.empty()) {
      note_read(at.span.begin, given.positional[0]);
      return given.positional[0];
    }
    if (object.module) return call_builtin(at, *node.function, given);
    return call_method(at, *method, object, given);
  }
  if (name != nullptr) {
    const auto known = state_.variables.find({scope_of(name->id), name->id});
    if (known == state_.variables.end()) {
      const Arguments given = arguments_of(node);
      const bool prints = name->id == "print" && given.keywords.empty();
      for (std::size_t i = 0; prints && i < given.positional.size(); ++i) {
        unite(graph_.shown_[node.arguments[i].value->span.begin], content(given.positional[i]));
      }
      return call_builtin(at, *node.function, given);
    }
    const Held function = known->second;
    const Held result = call_value(function, begin, arguments_of(node));
    note_read(begin, result);  // it may have a type of its own
    return result;
  }
  const Held function = evaluate(*node.function);
  if (const auto* maker = node.function->get<ast::Call>()) {
    constexpr std::string_view kTyped[] = {"local_map", "no_typecheck"};
    if (is_one_of(kTyped, last_name(*maker->function)) && node.arguments.size() == 1) {
      return evaluate(*node.arguments[0].value);
    }
  }
  return call_value(function, begin, arguments_of(node));
}

FlowWalk::Held FlowWalk::call_value(const Held& function, std::uint32_t begin,
                                    const Arguments& given) {
  Held result;
  bool called = false;
  Arguments with = given;
  const Ids bound = content(function);
  if (!bound.empty() || !function.memory.empty()) {  // functools.partial, f = F.apply
    Held rest = function;
    rest.functions.clear();
    rest.function_class.clear();
    unite(with.all, rest);
    with.positional.clear();
  }
  for (const auto& [code, around] : function.functions) {
    const Held one = call_function(*code, around, begin, with);
    if (called) {
      unite(result, one);
    } else {
      result = one;
    }
    called = true;
  }
  if (!function.function_class.empty()) return apply(function.function_class, begin, given);
  if (called) return result;
  Ids from = content(given.all);
  unite(from, bound);
  return computed(begin, from);
}

FlowWalk::Held FlowWalk::call_function(const ast::Function& function, int around,
                                       std::uint32_t begin, const Arguments& given) {
  const auto inside = std::ranges::count_if(frames_, [&](const Frame& frame) {
    return frame.scope != 0 && scopes_[static_cast<std::size_t>(frame.scope)].function == &function;
  });
  if (inside > 1 || frames_.size() > kDeepest || steps_ > 400'000) {
    Held result = computed(begin, content(given.all));
    unite(result.memory, given.all.memory);
    return result;
  }
  const auto [number, is_new] = scope_numbers_.try_emplace({&function, begin, frames_.back().scope},
                                                           static_cast<int>(scopes_.size()));
  if (is_new) scopes_.push_back({&function, around});
  frames_.push_back({.scope = number->second});
  std::size_t place = 0;
  const std::vector<Held>& defaults = defaults_[&function];
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    const ast::Parameter& parameter = function.parameters[i];
    Held value;
    const bool rest = parameter.kind == ast::Parameter::Kind::kRest ||
                      parameter.kind == ast::Parameter::Kind::kKeywords;
    if (rest || (given.positional.empty() && given.keywords.empty())) {
      value = given.all;
    } else if (const Held* named = keyword(given, parameter.name)) {
      value = *named;
    } else if (place < given.positional.size() && parameter.kind == ast::Parameter::Kind::kPlain) {
      value = given.positional[place++];
    } else if (i < defaults.size()) {
      value = defaults[i];
      if (const Held* more = keyword(given, ast::kDoubleStar)) unite(value, item_of(*more));
    }
    value.definitions.clear();
    state_.variables[{number->second, parameter.name}] = std::move(value);
  }
  std::vector<Ids> loops = std::exchange(left_loops_, {});
  execute(function.body);
  left_loops_ = std::move(loops);
  for (const auto& [variable, held] : state_.variables) {
    if (variable.first == number->second) end_of(held);
  }
  Held result = std::move(frames_.back().result);
  result.definitions.clear();
  frames_.pop_back();
  return result;
}

// Its name, or a group along it; else `other`.
static std::string dim_given_by(const auto& given, const std::string& other = {}) {
  if (!given.positional.empty()) return given.positional[0].text;
  return given.keywords.empty() ? other : given.keywords[0].second.text;
}

// Other names give a rank of the world, or of several mesh dims.
static bool is_place_along_dim(std::string_view name) {
  return name == "coordinate" || name == "get_local_rank" || name == "rank";
}

FlowWalk::Held FlowWalk::call_method(const ast::Expression& at, const ast::Attribute& method,
                                     const Held& object, const Arguments& given) {
  const std::string_view name = method.name;
  const std::uint32_t begin = method.name_span.begin;
  const std::string mesh_dim = object.mesh ? dim_given_by(given, object.text) : "";
  if (is_rank_member(name))
    return number_at(Kind::kRank, begin, is_place_along_dim(name) ? mesh_dim : "");
  if (object.mesh) {
    if (names_size(name)) return number_at(Kind::kWorld, begin, mesh_dim);
    return part_along(object, mesh_dim);
  }
  if (name == "item" || name == "tolist") {
    note_read(at.span.begin, object);
    return {.nodes = {node(Kind::kRead, begin, "", content(object))}};
  }
  static constexpr std::array<std::string_view, 9> kAbout = {
      "size", "numel",        "nelement",
      "dim",  "ndimension",   "stride",
      "wait", "is_completed", "register_full_backward_hook"};
  if (name == "backward") {
    Ids of = content(object);
    unite(of, content(given.all));
    backward(begin, of);
    return {};
  }
  if (name == "register_hook" || name.starts_with("register_full_backward")) {
    for (const auto& [code, around] : given.all.functions) {
      wait_for_gradient(*code, around, begin, object, nullptr);
    }
    return {};
  }
  const bool timed = name == "wait" && given.positional.size() + given.keywords.size() > 0;
  if (timed && tries_ > 0) graph_.nodes_[node(Kind::kDecides, begin)].name = "timeout";
  if (is_one_of(kAbout, name)) return names_size(name) ? size_of(at, object) : Held();
  static constexpr std::array<std::string_view, 6> kAdds = {
      "append", "extend", "insert", "save_for_backward", "update", "add"};
  const bool list = std::ranges::any_of(object.memory, [&](Id id) {
    const auto found = state_.memory.find(id);
    return found != state_.memory.end() && found->second.list;
  });
  if (is_one_of(kAdds, name) && (list || name != "add")) {
    Ids from = content(given.all);
    unite(from, control_);
    for (const Id id : object.memory) {
      Memory& memory = state_.memory[id];
      const Held added = name == "extend" || name == "update" ? item_of(given.all) : given.all;
      unite(memory.items, added.memory);
      unite(memory.content, added.nodes);
      unite(memory.content, control_);
      memory.length = 0;
    }
    return {};
  }
  if (name == "narrow" || name == "index_select") note_part(at, object, given.all);
  if (seeds(name)) {  // of a generator
    write(object, content(given.all), begin);
    return object;
  }
  return call_op(begin, name, &object, given);
}

FlowWalk::Held FlowWalk::call_builtin(const ast::Expression& at, const ast::Expression& function,
                                      const Arguments& given) {
  const std::string_view name = last_name(function);
  const std::uint32_t begin = at.span.begin;
  if (names_rank(name) || is_rank_member(name)) {
    return number_at(Kind::kRank, begin, name == "get_rank" ? dim_given_by(given) : "");
  }
  if (names_world(name)) return number_at(Kind::kWorld, begin, dim_given_by(given));
  if (name == "backward" || name == "grad") {
    const Ids made = backward(begin, content(given.all));
    return name == "backward" ? Held() : computed(begin, made);
  }
  if (name == "print") {
    note_read(begin, given.all);
    node(Kind::kShown, begin, "", content(given.all));
    return {};
  }
  if (name == "assert_close") {
    node(Kind::kAsserted, begin, "", content(given.all));
    return {};
  }
  if (seeds(name)) {
    state_.memory[random_].content = {node(Kind::kWritten, begin, "", content(given.all))};
    return {};
  }
  const bool one = given.positional.size() == 1 && given.keywords.empty();
  if (name == "len" && one) return size_of(at, given.positional[0]);
  if ((name == "float" || name == "int" || name == "bool") && one &&
      !given.positional[0].memory.empty()) {
    note_read(begin, given.positional[0]);
    return {.nodes = {node(Kind::kRead, begin, "", content(given.positional[0]))}};
  }
  if (name == "range") {
    Held held;
    held.nodes = {node(Kind::kComputed, begin, "range", content(given.all))};
    if (one && given.positional[0].number) {
      held.number = given.positional[0].number;
      held.literal = given.positional[0].literal;
      graph_.counts.insert(static_cast<std::int64_t>(*held.number));
    }
    return held;
  }
  constexpr std::string_view kMakeMeshes[] = {"init_device_mesh", "new_group", "DeviceMesh",
                                              "_concatenate", "from_group"};
  if (std::ranges::count(kMakeMeshes, name) > 0) return {.mesh = true};
  if (name == "from_local") {
    Held held = given.positional.empty() ? given.all : given.positional[0];
    held.items.clear();
    held.nodes = {node(Kind::kLabelled, begin, "", content(given.all))};
    return held;
  }
  if (name == "trace" && one) return given.positional[0];
  if (name == "checkpoint" && !given.positional.empty()) {
    Arguments rest = given;
    rest.positional.erase(rest.positional.begin());
    return call_value(given.positional[0], begin, rest);
  }
  return call_op(begin, name, nullptr, given);
}

void FlowWalk::note_factors(const Ids& made, std::string_view name, const Held& of,
                            const Held& number) {
  const bool divides = name.find("div") != name.npos;
  if (!divides && !name.starts_with("mul")) return;
  for (const Id id : made) {
    note_factor(id, divides ? ast::BinaryOp::kDiv : ast::BinaryOp::kMul, of, number);
  }
}

// x.add_(y), torch._foreach_add_(list, ..). `number` may be null.
FlowWalk::Held FlowWalk::write_by_op(std::uint32_t begin, std::string_view name, const Held& first,
                                     const Held* number, const Arguments& given, const Ids& from) {
  const bool all = name.starts_with("_fused");
  if (!all) write(first, from, begin);
  for (const Held& one : given.positional) {
    if (all) write(one, from, begin);
  }
  Ids written;
  for (const Id id : content(first)) {
    if (graph_.nodes_[id].begin == begin) written.push_back(id);
  }
  if (!all && number != nullptr) note_factors(written, name, first, *number);
  for (const Id id : written) graph_.nodes_[id].op = name;
  return first;
}

// The running ones of batch_norm.
void FlowWalk::write_statistics(std::uint32_t begin, const Arguments& given, const Ids& from) {
  for (std::size_t i = 1; i < std::min<std::size_t>(3, given.positional.size()); ++i) {
    write(given.positional[i], from, begin);
  }
  for (const char* statistic : {"running_mean", "running_var"}) {
    if (const Held* held = keyword(given, statistic)) write(*held, from, begin);
  }
}

// Writes of its first argument, or f(.., out=y). A factory or a draw in place reads the state of
// random numbers.
FlowWalk::Held FlowWalk::call_op(std::uint32_t begin, std::string_view name, const Held* object,
                                 const Arguments& given) {
  Ids from = content(given.all);
  if (object != nullptr) unite(from, content(*object));
  if (draws(name) && keyword(given, "generator") == nullptr) {
    unite(from, state_.memory[random_].content);
    unite(state_.memory[random_].content, control_);
  }
  const Held* first = object != nullptr          ? object
                      : given.positional.empty() ? nullptr
                                                 : &given.positional[0];
  const bool in_place = name.ends_with('_') && !name.ends_with("__") && name != "requires_grad_";
  if (first != nullptr && (in_place || keyword(given, "inplace") != nullptr)) {
    const bool by_number = object != nullptr && !given.positional.empty();
    return write_by_op(begin, name, *first, by_number ? &given.positional[0] : nullptr, given,
                       from);
  }
  if (const Held* out = keyword(given, "out")) {
    write(*out, from, begin);
    return *out;
  }
  if (name == "batch_norm") write_statistics(begin, given, from);
  Held result = computed(begin, from);
  if (has_entries(given.all)) {  // all ranks' together: torch.stack(list), sum(list)
    const Id all = node(Kind::kGathered, begin, "", from);
    result.memory = {all};
    state_.memory[all].content = {all};
  }
  for (const Id id : result.memory) graph_.nodes_[id].op = name;
  if (given.all.memory.empty() && object == nullptr && find_function(name) != nullptr &&
      find_builtin(factory_builtins(), name) == nullptr) {
    std::swap(result.nodes, result.memory);  // a number
  }
  const bool scales = name == "div" || name == "true_divide" || name == "divide" || name == "mul";
  if (scales && object != nullptr && !given.positional.empty()) {
    note_factors(result.memory.empty() ? result.nodes : result.memory, name, *object,
                 given.positional[0]);
  }
  if (shares_memory(name)) {
    const Held& shared = object != nullptr ? *object : given.all;
    result.nodes = result.memory;
    result.memory = shared.memory;
    result.functions = shared.functions;
    result.mesh = shared.mesh;
  } else if (name == "partial") {
    result.functions = given.all.functions;
    result.function_class = given.all.function_class;
  } else {  // map(f, xs), reduce(f, xs), checkpoint(f, x): any def that it is given is called
    Arguments inner{.keywords = {}, .all = given.all};
    inner.all.functions.clear();
    unite(inner.all, item_of(given.all));
    for (const auto& [code, around] : given.all.functions) {
      unite(result, call_function(*code, around, begin, inner));
    }
  }
  return result;
}

// "avg" of all_reduce(t, "avg") and of op=dist.ReduceOp.AVG, in small letters; "sum" if no other
// reduction is written there.
static std::string reduction_of(const ast::Call& call) {
  constexpr std::string_view kReductions[] = {"avg",  "max", "min", "product",
                                              "band", "bor", "bxor"};
  std::string found = "sum";
  for (const ast::CallArgument& argument : call.arguments) {
    std::string text(last_name(*argument.value));
    if (const auto* written = argument.value->constant<std::string>()) text = *written;
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    if (std::ranges::find(kReductions, text) != std::end(kReductions)) found = text;
  }
  return found;
}

FlowWalk::Held FlowWalk::collective(const ast::Call& call, std::uint32_t begin,
                                    const Arguments& given) {
  const std::string_view name = last_name(*call.function);
  if (own_collective(call) == OwnCollective::kFills) {
    const std::size_t before = graph_.nodes_.size();
    fill(name, begin, given);
    for (std::size_t id = before; id < graph_.nodes_.size(); ++id) {
      if (graph_.nodes_[id].kind == Kind::kReduced) graph_.nodes_[id].op = reduction_of(call);
    }
    return {};
  }
  const bool reduces = name.find("reduce") != name.npos;
  const Kind kind = reduces                                            ? Kind::kReduced
                    : name == "broadcast" || name.find("scatter") == 0 ? Kind::kFromOne
                                                                       : Kind::kGathered;
  const Held& first = given.positional.empty() ? given.all : given.positional[0];
  if (name == "wait_tensor") return first;
  const Id made = node(kind, begin, "", content(first));
  if (reduces) graph_.nodes_[made].op = reduction_of(call);
  Held held = fresh(made);
  state_.memory[made] = {.content = {made}};
  return held;
}

// Collectives of torch.distributed write their first argument, or the list there.
void FlowWalk::fill(std::string_view name, std::uint32_t begin, const Arguments& given) {
  const auto argument = [&](std::size_t place, const char* key) -> Held {
    if (const Held* named = keyword(given, key)) return *named;
    return place < given.positional.size() ? given.positional[place] : Held();
  };
  Held target = given.positional.empty() ? given.all : given.positional[0];
  Held source = given.positional.size() > 1 ? given.positional[1] : given.all;
  Kind kind = Kind::kGathered;
  if (name == "barrier") return;
  if (name == "all_reduce" || name == "reduce" || name == "broadcast") {
    kind = name == "broadcast" ? Kind::kFromOne : Kind::kReduced;
    source = target = argument(0, "tensor");
  } else if (name == "gather" || name == "gather_object") {
    kind = Kind::kFromOne;
    source = argument(0, name == "gather" ? "tensor" : "obj");
    target = argument(1, name == "gather" ? "gather_list" : "object_gather_list");
  } else if (name == "broadcast_object_list") {
    kind = Kind::kFromOne;
    source = target;
  } else if (name.find("reduce_scatter") != name.npos) {
    kind = Kind::kReduced;
  } else if (name == "all_gather" || name == "all_gather_object" || name.starts_with("scatter") ||
             name == "all_to_all") {
    kind = Kind::kFromOne;
  }
  Ids from = content(source);
  std::int64_t length = 0;
  SourceSpan literal;
  bool lists = false;
  for (const Held* side : {&target, &source}) {
    for (const Id id : side->memory) {
      const Memory& memory = state_.memory[id];
      lists = lists || (memory.list && side == &target);
      if (!memory.list || memory.length == 0) continue;
      length = memory.length;
      literal = memory.literal;
    }
  }
  for (const Id id : target.memory) {  // objects that are no tensors are items without memory
    if (state_.memory[id].list)
      unite(state_.memory[id].content, {node(kind, begin, "items", from)});
  }
  write(target, from, begin, kind);
  for (FlowNode& made : graph_.nodes_) {
    if (made.begin != begin || made.kind != kind) continue;
    made.length = length;
    made.literal = literal;
    made.entry = name == "reduce" || (lists && kind == Kind::kFromOne);
    if (name == "scatter") made.op = name;
  }
}

FlowWalk::Held FlowWalk::message(std::string_view name, const ast::Call& call, std::uint32_t begin,
                                 const Arguments& given) {
  const bool first = name == "P2POp" && !call.arguments.empty();
  const std::string_view kind = first ? last_name(*call.arguments[0].value) : name;
  if (kind == "batch_isend_irecv") return given.all;
  const std::size_t place = first ? 1 : 0;
  const Held buffer = place < given.positional.size() ? given.positional[place] : given.all;
  Ids from = content(given.all);
  if (sends(kind)) {
    unite(sent_, {node(Kind::kSent, begin, "", from)});
  } else {
    Ids arrived = sent_;
    Ids peers = given.all.nodes;
    unite(arrived, peers);
    write(buffer, arrived, begin, Kind::kReceived);
    for (const Id id : buffer.memory) {
      if (state_.memory[id].list) {
        unite(state_.memory[id].content, {node(Kind::kReceived, begin, "items", arrived)});
      }
    }
  }
  Held handle;
  handle.nodes = {node(Kind::kComputed, begin, "handle", {})};
  return handle;
}

const ast::Function* FlowWalk::method_of(const std::string& function_class,
                                         const char* name) const {
  const auto found = methods_.find(function_class + "." + name);
  return found == methods_.end() ? nullptr : found->second;
}

FlowWalk::Held FlowWalk::apply(const std::string& function_class, std::uint32_t begin,
                               const Arguments& given) {
  const ast::Function* forward = method_of(function_class, "forward");
  if (forward == nullptr) return computed(begin, content(given.all));
  const Id made = node(Kind::kComputed, begin, "context");
  state_.memory[made].list = true;
  const Held context = fresh(made);
  const ast::Function* setup = method_of(function_class, "setup_context");
  Arguments inner = given;
  if (setup == nullptr) inner.positional.insert(inner.positional.begin(), context);
  Held result = call_function(*forward, 0, begin, inner);
  if (setup != nullptr) {
    Arguments told;
    told.positional = {context, given.all, result};
    call_function(*setup, 0, begin, told);
  }
  // The result is a value of its own, also where forward returns its argument.
  unite(result.nodes, {node(Kind::kComputed, begin, "applied", content(result))});
  if (const ast::Function* back = method_of(function_class, "backward")) {
    wait_for_gradient(*back, 0, begin, result, &context);
  }
  return result;
}

void FlowWalk::wait_for_gradient(const ast::Function& function, int around, std::uint32_t begin,
                                 const Held& forward, const Held* context) {
  Backward waits;
  waits.forward = content(forward);
  waits.gradient = node(Kind::kComputed, begin, "gradient " + function.path);
  state_.memory[waits.gradient].content = {waits.gradient};
  Arguments told;
  if (context != nullptr) told.positional.push_back(*context);
  told.positional.push_back(fresh(waits.gradient));
  told.all = fresh(waits.gradient);
  waits.gives = content(call_function(function, around, begin, told));
  waiting_.push_back(std::move(waits));
}

// Gradients of all memory from which the loss is made.
FlowWalk::Ids FlowWalk::backward(std::uint32_t begin, const Ids& of) {
  const Id made = node(Kind::kBackward, begin, "", of);
  std::vector<bool> seen(graph_.nodes_.size());
  Ids open = {made};
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (seen[id]) continue;
    seen[id] = true;
    const Ids& from = graph_.nodes_[id].from;
    open.insert(open.end(), from.begin(), from.end());
  }
  Ids gives = {made};
  for (const Backward& waits : waiting_) {
    if (std::ranges::none_of(waits.forward, [&](Id id) { return seen[id]; })) continue;
    add_from(waits.gradient, {made});
    unite(gives, waits.gives);
  }
  std::vector<Id> memory;
  for (const auto& [id, held] : state_.memory) {
    if (id < seen.size() && seen[id]) memory.push_back(id);
  }
  for (const Id id : memory) write(gradient_of(fresh(id)), gives, begin);
  return gives;
}

}  // namespace shardlab
