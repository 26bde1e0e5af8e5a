// A walk over the syntax tree: one rank, one interpreter, statements in order. Before anything that
// can fail it notes the place (enter()), so that errors, traces and reports name the line. Loops
// and nested calls are bounded by counts, which are the same in every build, and the stack by its
// size.
#include "sim/language/run/interpreter.h"

#include <algorithm>

#include "autograd/hooks.h"
#include "autograd/tape.h"
#include "sim/language/run/call_names.h"
#include "sim/language/values/object.h"

#include "autograd/grad_mode.h"
#include "dispatch/prepare.h"
#include "sim/language/run/augmented.h"
#include "sim/language/run/function_class.h"
#include "sim/language/run/interpreter_frame.h"
#include "sim/language/run/module_hooks.h"
#include "sim/language/values/nesting.h"
#include "sim/language/values/python_error.h"
#include "sim/language/values/rank_value.h"
#include "sim/types/claim.h"
#include "sim/types/typed_program.h"

// For debuggers, which stop here before a statement of the program: both numbers are in the
// registers of the first two arguments, also without debug information (sim/README.md).
extern "C" [[gnu::noinline]] void shardlab_statement(std::int64_t rank, std::int64_t line) {
  asm volatile("" : : "r"(rank), "r"(line));
}

namespace shardlab {

namespace {

/// The place of the op that failed: a gradient fails at the place of its op, while `running`, the
/// statement that is executed, is its backward.
std::uint32_t failed_offset(const SourceText& source, const RankContext* context,
                            std::uint32_t running) {
  if (context == nullptr || context->position.file == nullptr) return running;
  const SourcePosition& failed = context->position;
  std::uint32_t start = 0;  // of a line of the program
  while (source.place(start).line < failed.line) {
    const std::size_t end = source.text().find('\n', start);
    if (end == std::string::npos) return running;
    start = static_cast<std::uint32_t>(end + 1);
  }
  for (std::uint32_t offset = start; offset < source.text().size(); ++offset) {
    const SourcePlace place = source.place(offset);
    if (place.line != failed.line) break;
    if (place.column == failed.column) return offset;
  }
  return running;
}

// A frame, and not a local: ASan may put locals elsewhere.
const char* stack_here() { return static_cast<const char*>(__builtin_frame_address(0)); }

}  // namespace

Interpreter::Interpreter(const ProgramSetup& setup)
    : setup_(setup), cells_(std::make_shared<Cells>()) {
  for (const auto& [name, literal] : *setup.params) {
    globals_[name] = std::visit([](const auto& value) { return Value(value); }, literal);
  }
  meshes_.push_back({setup.layout, setup.reported,
                     std::make_shared<MeshRoot>(MeshRoot{.reported = setup.reported})});
  globals_["mesh"] = meshes_[0];
  if (setup.questions != nullptr) {
    globals_["rank"] = rank_value([](std::int64_t rank) { return Value(rank); }, setup.rank);
  } else {
    globals_["rank"] = setup.rank;
  }
  globals_["world_size"] = setup.world_size;
}

Interpreter::~Interpreter() { cells_->clear(); }

void Interpreter::define(const std::string& name, Value value) {
  globals_[name] = std::move(value);
}

const Value* Interpreter::find(const std::string& name) const {
  const auto found = globals_.find(name);
  return found == globals_.end() ? nullptr : &found->second;
}

std::vector<std::string> Interpreter::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : globals_) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

void Interpreter::visit_values(const std::function<void(const Value& value)>& visit) const {
  for (const auto& [name, value] : globals_) visit(value);
  for (const Frame* frame = frame_; frame != nullptr; frame = frame->caller) {
    for (const auto& [name, value] : frame->locals) visit(value);
    for (const auto& [name, cell] : frame->cells) {
      if (cell->value) visit(*cell->value);
    }
  }
}

void Interpreter::run() {
  stack_base_ = stack_here();
  try {
    execute(setup_.program->body);
    if (!printed_.empty()) print("\n");
  } catch (Error& error) {
    const SourceText& source = *setup_.program->source;
    const RankContext* context = current_rank_or_null();
    const std::uint32_t failed = failed_offset(source, context, position_.begin);
    if (failed != position_.begin) error.with("run by", source.at(position_.begin));
    error.with("at", context != nullptr ? place_text(*context) : source.at(position_.begin))
        .with("excerpt", source.excerpt(failed));
    throw;
  }
}

void Interpreter::enter(SourceSpan span) {
  position_ = span;
  if (setup_.sink != nullptr) setup_.sink->computes(span);
  RankContext* context = current_rank_or_null();
  if (context == nullptr || setup_.inside_op) return;
  const SourceText& source = *setup_.program->source;
  KnownPlace& known = places_[span.begin % places_.size()];
  if (known.offset != span.begin) known = {span.begin, source.place(span.begin)};
  context->position = {source.file().c_str(), known.place.line, known.place.column};
}

void Interpreter::check_stack() const {
  const char* here = stack_here();
  const auto used = stack_base_ > here ? stack_base_ - here : here - stack_base_;
  if (static_cast<std::size_t>(used) < setup_.stack_bytes) return;
  fail(ErrorKind::kRuntime, Fix{"does a def call itself without an end?"},
       "calls are nested too deeply");
}

Interpreter::Flow Interpreter::execute(const ast::Block& block) {
  for (const ast::Statement& statement : block) {
    const Flow flow = execute(statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const ast::Statement& statement) {
  check_stack();
  if (setup_.sink != nullptr) setup_.sink->begins(statement.span);
  enter(statement.span);
  const RankContext* context = current_rank_or_null();
  if (context != nullptr) shardlab_statement(context->rank, context->position.line);
  return std::visit([&](const auto& node) { return run_node(statement, node); }, statement.node);
}

Interpreter::Flow Interpreter::run_node(const ast::Statement&,
                                        const ast::ExpressionStatement& node) {
  evaluate(*node.value);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_node(const ast::Statement& statement, const ast::Assign& node) {
  const Value value = evaluate(*node.value);
  for (const auto& target : node.targets) assign(*target, value, statement.span);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_node(const ast::Statement& statement,
                                        const ast::AugmentedAssign& node) {
  const Value before = evaluate(*node.target);
  const Value operand = evaluate(*node.value);
  enter(statement.span);
  assign(*node.target, augmented(*this, node.op, before, operand), statement.span);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_node(const ast::Statement&, const ast::If& node) {
  for (const auto& branch : node.branches) {
    if (!branch.condition || holds(*branch.condition)) return execute(branch.body);
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_node(const ast::Statement& statement, const ast::For& node) {
  const Value iterable = evaluate(*node.iterable);
  const auto pass = [&](const Value& item) {
    count_pass("for", for_steps_, 10 * setup_.step_limit, statement.span);
    assign(*node.target, item, {0, 0});
    return execute(node.body);
  };
  enter(statement.span);
  const auto* range = iterable.get<RangeValue>();
  const Values items = range != nullptr ? Values() : iterate(iterable);
  const std::int64_t count = range != nullptr ? range->size() : std::ssize(items);
  for (std::int64_t i = 0; i < count; ++i) {
    const Flow flow =
        pass(range != nullptr ? Value((*range)[i]) : items[static_cast<std::size_t>(i)]);
    if (flow == Flow::kBreak) return Flow::kNext;
    if (flow == Flow::kReturn) return flow;
  }
  return execute(node.otherwise);
}

void Interpreter::count_pass(std::string_view loop, std::int64_t& passes, std::int64_t most,
                             SourceSpan place) {
  if (++passes <= most) return;
  enter(place);
  if (loop == "def") {
    fail(ErrorKind::kRuntime, Fix{"keep results that are asked for again, or use a loop"},
         "more than {} calls and passes through for loops", most);
  }
  fail(ErrorKind::kRuntime,
       Fix{loop == "while" ? "does the condition ever become False?"
                           : "loop over less, or leave with break"},
       "more than {} passes through {} loops", most, loop);
}

Interpreter::Flow Interpreter::run_node(const ast::Statement& statement, const ast::While& node) {
  while (holds(*node.condition)) {
    count_pass("while", steps_, setup_.step_limit, statement.span);
    const Flow flow = execute(node.body);
    if (flow == Flow::kBreak) return Flow::kNext;
    if (flow == Flow::kReturn) return flow;
  }
  return execute(node.otherwise);
}

Interpreter::Flow Interpreter::run_node(const ast::Statement&, const ast::Def& node) {
  bind(node.function->name, made(node));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_node(const ast::Statement&, const ast::Class& node) {
  FunctionClass::Methods methods;
  for (const ast::Statement& statement : node.body) {
    const auto& def = std::get<ast::Def>(statement.node);
    methods[def.function->name] = {made(def), def.once_differentiable};
  }
  bind(node.name, ObjectValue{std::make_shared<FunctionClass>(node.name, std::move(methods))});
  return Flow::kNext;
}

FunctionValue Interpreter::made(const ast::Def& node) {
  Values defaults;
  for (const ast::Parameter& parameter : node.function->parameters) {
    defaults.push_back(parameter.default_value ? evaluate(*parameter.default_value) : Value());
  }
  std::shared_ptr<CellMap> captured;
  for (const std::string& name : node.function->free) {
    const bool known = frame_ != nullptr && frame_->cells.contains(name);
    if (!known && std::ranges::count(node.function->nonlocals, name) > 0) {
      fail(Fix{"assign to it in the def around, or write global"},
           "nonlocal {}: no def around {} binds it", name, node.function->name);
    }
    if (!known) continue;
    const auto cell = frame_->cells.find(name);
    if (captured == nullptr) captured = std::make_shared<CellMap>();
    captured->insert(*cell);
  }
  return {node.function, std::make_shared<const Values>(std::move(defaults)), captured,
          std::make_shared<ModuleHooks>()};
}

Interpreter::Flow Interpreter::run_node(const ast::Statement& statement, const ast::With& node) {
  return run_with(statement, node, 0);
}

Interpreter::Flow Interpreter::run_with(const ast::Statement& statement, const ast::With& node,
                                        std::size_t item) {
  if (item == node.items.size()) return execute(node.body);
  const auto& [expression, target] = node.items[item];
  const Value context = evaluate(*expression);
  enter(expression->span);
  if (const auto* mesh = context.get<MeshValue>()) {
    entered_meshes_.push_back(*mesh);
    TypedProgram* typed = typed_program();
    struct LeaveMesh {
      std::vector<MeshValue>& entered;
      TypedProgram* typed;
      const MeshLayout* outer;
      ~LeaveMesh() {
        entered.pop_back();
        if (typed != nullptr) typed->look_along(outer);
      }
    } const leave{entered_meshes_, typed,
                  typed == nullptr ? nullptr : typed->look_along(mesh->layout)};
    if (target) assign(*target, context, statement.span);
    return run_with(statement, node, item + 1);
  }
  const auto* object = context.get<ObjectValue>();
  auto* manager = object != nullptr ? dynamic_cast<ContextManager*>(object->object.get()) : nullptr;
  if (manager == nullptr) {
    fail(Fix{"enter one of no_grad(), inference_mode(), CommDebugMode(), "
             "implicit_replication()"},
         "'with' cannot enter {}", a_kind(context));
  }
  const Value value = manager->enter(*this, context);
  struct Leave {
    ContextManager* manager;
    ~Leave() { manager->leave(); }
  } const leave{manager};
  if (target) assign(*target, value, statement.span);
  return run_with(statement, node, item + 1);
}

Interpreter::Flow Interpreter::run_node(const ast::Statement&, const ast::Return& node) {
  returned_ = node.value ? evaluate(*node.value) : Value();
  return Flow::kReturn;
}

Interpreter::Flow Interpreter::run_node(const ast::Statement& statement, const ast::Assert& node) {
  shown_ = node.condition.get();
  if (holds(*node.condition)) return Flow::kNext;
  const std::string_view condition = setup_.program->source->text(node.condition->span);
  // raise is an assert False with a whole message.
  const bool raised = condition == "raise";
  std::string message = raised ? "" : fmt::format("assert {}", condition);
  if (node.message) message += (raised ? "" : ": ") + str(evaluate(*node.message));
  enter(statement.span);
  fail(ErrorKind::kAssert, "{}", message);
}

namespace {

// "ValueError" for an error that the program raised, "AssertionError" for an assert; empty for a
// refusal of an op or a function.
std::string_view raised_kind(const Error& error) {
  if (const std::string* python = error.find(kPythonPart)) {
    return std::string_view(*python).substr(0, python->find(':'));
  }
  if (error.kind() != ErrorKind::kAssert) return {};
  const std::string_view summary = error.summary();
  return summary.starts_with("assert ") ? "AssertionError" : summary.substr(0, summary.find(':'));
}

// Other ranks may wait in the call that failed, unless a value is refused before it. A limit
// of the language has no handler: Python would go on.
bool can_be_caught(const Error& error) {
  return error.kind() == ErrorKind::kAssert || error.kind() == ErrorKind::kValue;
}

// Only Python knows the class of most refusals, so they are caught by the handler of a try with
// one.
const ast::Try::Handler* handler_of(const ast::Try& node, const Error& error) {
  const std::string_view kind = raised_kind(error);
  for (const ast::Try::Handler& handler : node.handlers) {
    const bool all = handler.kinds.empty() || std::ranges::count(handler.kinds, "Exception") > 0;
    const std::string_view base = kind == "KeyError" || kind == "IndexError" ? "LookupError"
                                  : kind == "UnboundLocalError"              ? "NameError"
                                  : kind == "ZeroDivisionError" || kind == "OverflowError"
                                      ? "ArithmeticError"
                                      : kind;
    const bool named =
        std::ranges::count(handler.kinds, kind) + std::ranges::count(handler.kinds, base) > 0;
    if (all || named || (kind.empty() && node.handlers.size() == 1)) return &handler;
  }
  return nullptr;
}

// The text of str(error).
std::string text_of(const Error& error) {
  const std::string* python = error.find(kPythonPart);
  const std::string& summary = python != nullptr ? *python : error.summary();
  if (error.kind() != ErrorKind::kAssert && python == nullptr) return summary;
  const std::size_t end = summary.find(": ");
  return end == std::string::npos ? "" : summary.substr(end + 2);
}

}  // namespace

Interpreter::Flow Interpreter::run_node(const ast::Statement& statement, const ast::Try& node) {
  std::optional<Error> failed;
  Flow flow = Flow::kNext;
  try {
    flow = run_handled(statement, node);
  } catch (const Error& error) {
    failed = error;
  }
  if (failed && !can_be_caught(*failed)) throw *failed;
  const Value returned = std::exchange(returned_, Value());
  const Flow last = execute(node.last);
  if (last != Flow::kNext) return last;
  if (failed) throw *failed;
  returned_ = returned;
  return flow;
}

Interpreter::Flow Interpreter::run_node(const ast::Statement&, const ast::Delete& node) {
  for (const ast::ExpressionPtr& item : node.items) {
    const auto& subscript = std::get<ast::Subscript>(item->node);
    const Value object = settle(evaluate(*subscript.object));
    const Value key = settle(evaluate(*subscript.index));
    enter(item->span);
    remove_index(object, key);
  }
  return Flow::kNext;
}

// Handlers run outside of the catch: they may wait for other ranks.
Interpreter::Flow Interpreter::run_handled(const ast::Statement& statement, const ast::Try& node) {
  std::optional<Error> failed;
  try {
    const Flow flow = execute(node.body);
    if (flow != Flow::kNext) return flow;
  } catch (const Error& error) {
    failed = error;
  }
  if (!failed) return execute(node.otherwise);
  const ast::Try::Handler* handler = can_be_caught(*failed) ? handler_of(node, *failed) : nullptr;
  if (handler == nullptr) throw *failed;
  enter(statement.span);
  if (!handler->name.empty()) bind(handler->name, text_of(*failed));
  return execute(handler->body);
}

// Names without a value yet are skipped: in [x for x in x] the list is the outer x.
Interpreter::OwnName* Interpreter::find_own(const std::string& name) {
  for (std::size_t i = comprehended_.size(); i-- > own_names_;) {
    if (comprehended_[i].name == name && comprehended_[i].value) return &comprehended_[i];
  }
  return nullptr;
}

// No statement runs inside of a comprehension, so that names bound there are its own.
void Interpreter::bind(const std::string& name, const Value& value) {
  for (std::size_t i = comprehended_.size(); i-- > own_names_;) {
    if (comprehended_[i].name != name) continue;
    comprehended_[i].value = value;
    return;
  }
  if (frame_ == nullptr || std::ranges::count(frame_->function->globals, name) > 0) {
    if (frame_ != nullptr) note_effect("global");
    globals_[name] = value;
    return;
  }
  if (std::ranges::count(frame_->function->nonlocals, name) > 0) note_effect("nonlocal");
  frame_->bind(name, value);
}

void Interpreter::report(const std::string& name, const Value& value, SourceSpan span) {
  if (setup_.sink == nullptr) return;
  const std::string full = full_name(name);
  setup_.sink->assigned(full, occurrences_[full]++, value, {setup_.program->source, span});
}

void Interpreter::report_read(std::string (*name_of)(const ast::Expression&),
                              const ast::Expression& by, const Value& value, bool shown) {
  const auto* tensor = value.get<DTensor>();
  if (setup_.sink == nullptr || tensor == nullptr || tensor->distributed()) return;
  const std::string full = full_name(name_of(by));
  setup_.sink->read(full, occurrences_[full]++, *tensor, {setup_.program->source, by.span}, shown);
}

// Elements that are read, and names, are reported where they are made.
void Interpreter::report_number(const ast::Expression& by, const Value& value) {
  const auto* call = by.get<ast::Call>();
  const bool known = by.is<ast::Constant>() || (call != nullptr && read_by(*call) != nullptr);
  if (setup_.sink == nullptr || !value.is_number() || known) return;
  const std::string full = full_name(ast::print(by));
  setup_.sink->number_shown(full, occurrences_[full]++, value, {setup_.program->source, by.span});
}

// "x" of spmd.assert_type(x, {...}); the whole of another call.
static std::string subject_of(std::string_view call, std::string_view function) {
  const std::size_t open = call.find('(');
  if (open == call.npos || !call.substr(0, open).ends_with(function)) return std::string(call);
  int depth = 0;
  std::size_t end = open + 1;
  for (; end < call.size(); ++end) {
    const char c = call[end];
    depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
    if (depth < 0 || (depth == 0 && c == ',')) break;
  }
  return std::string(call.substr(open + 1, end - open - 1));
}

void Interpreter::claim(const DTensor& x, SpmdClaim claim, SourceSpan at, std::string_view function,
                        bool of_gradient) {
  if (setup_.sink == nullptr) return;
  const auto& source = setup_.program->source;
  claim.subject =
      subject_of(std::string_view(source->text()).substr(at.begin, at.end - at.begin), function);
  const std::string name = full_name(fmt::format("{}({})", function, claim.subject));
  const std::int64_t occurrence = occurrences_[name]++;
  const Where where{source, at};
  setup_.sink->claimed(name, occurrence, x, claim, where);
  if (!of_gradient || !requires_grad(x) || !grad_enabled()) return;
  claim.gradient = true;
  for (SpmdType& type : claim.type.types) type = gradient_type(type);
  register_hook(x, [=, sink = setup_.sink](const DTensor& gradient) {
    sink->claimed(name + ", gradient", occurrence, gradient, claim, where);
    return DTensor();
  });
}

Value Interpreter::taken(SourceSpan expression, const Value& whole, Value part) {
  if (setup_.parts == nullptr || !setup_.parts->contains(expression)) return part;
  std::optional<Value> other = setup_.sink->taken(expression, whole, part);
  return other ? std::move(*other) : std::move(part);
}

bool Interpreter::holds(const ast::Expression& condition) {
  const Value value = evaluate(condition);
  report_read(name_of_operand, condition, value, false);
  return truth(value);
}

std::string Interpreter::full_name(const std::string& name) const {
  return frame_ != nullptr ? frame_->function->path + "." + name : name;
}

// An empty statement span: the names of a loop, which are not reported.
void Interpreter::assign(const ast::Expression& target, const Value& value, SourceSpan statement) {
  if (const auto* name = target.get<ast::Name>()) {
    const bool told = setup_.sink != nullptr && statement.end > statement.begin;
    const Value* before = !told               ? nullptr
                          : frame_ == nullptr ? find(name->id)
                                              : frame_->find(name->id);
    if (before != nullptr) setup_.sink->replaced(full_name(name->id), *before, value);
    bind(name->id, value);
    if (told) report(name->id, value, statement);
    return;
  }
  if (const auto* subscript = target.get<ast::Subscript>()) {
    const Value object = evaluate(*subscript->object);
    const Value key = evaluate(*subscript->index);
    enter(target.span);
    const Value place = settle(key);
    return set_index(object, place, settle(value));
  }
  if (const auto* attribute = target.get<ast::Attribute>()) {
    const Value object = evaluate(*attribute->object);
    enter(attribute->name_span);
    if (attribute->name == "grad" && object.is_tensor() && value.is_none()) {
      return drop_grad(object.as<DTensor>());
    }
    const bool of_tensor = attribute->name == "grad" || attribute->name == "data";
    if (of_tensor && object.is_tensor() && value.is_tensor()) {
      return write_attribute(object, attribute->name, value);
    }
    const auto* owner = object.get<ObjectValue>();
    if (owner != nullptr && owner->object->set(*this, attribute->name, value)) return;
    fail(Fix{"assign to a name, or to an item: d[\"key\"] = value"}, "'.{}' cannot be assigned to",
         attribute->name);
  }
  unpack(target, iterate(value), statement);
}

// A name with a star takes what the others leave.
void Interpreter::unpack(const ast::Expression& target, const Values& items, SourceSpan statement) {
  const auto* tuple = target.get<ast::Tuple>();
  const auto& names = tuple != nullptr ? tuple->items : std::get<ast::List>(target.node).items;
  const auto star = std::ranges::find_if(
      names, [](const ast::ExpressionPtr& name) { return name->is<ast::Starred>(); });
  const bool starred = star != names.end();
  if (starred ? items.size() + 1 < names.size() : items.size() != names.size()) {
    enter(target.span);
    const std::size_t needed = names.size() - (starred ? 1 : 0);
    const std::string python =
        items.size() > needed ? fmt::format("too many values to unpack (expected {})", needed)
                              : fmt::format("not enough values to unpack (expected {}{}, got {})",
                                            starred ? "at least " : "", needed, items.size());
    fail_as("ValueError: " + python, Fix{"write one name per value: a, b = pair"},
            "there are {} values for {}{} names", items.size(), starred ? "at least " : "", needed);
  }
  std::size_t next = 0;
  for (const ast::ExpressionPtr& name : names) {
    const auto* rest = name->get<ast::Starred>();
    if (rest == nullptr) {
      assign(*name, items[next++], statement);
      continue;
    }
    const auto first = items.begin() + static_cast<std::ptrdiff_t>(next);
    next += items.size() + 1 - names.size();
    const auto last = items.begin() + static_cast<std::ptrdiff_t>(next);
    assign(*rest->value, make_list({first, last}), statement);
  }
}

// The tensor stays, and its elements become those of the value: x.grad /= n has written them.
void Interpreter::write_attribute(const Value& object, const std::string& name,
                                  const Value& value) {
  const Value held = attribute(object, name);
  const auto* to = held.get<DTensor>();
  const DTensor& from = value.as<DTensor>();
  if (to == nullptr || to->shape() != from.shape() || to->dtype() != from.dtype() ||
      to->spec() != from.spec()) {
    fail(Fix{"write into a tensor of its shape, dtype and placements: x.grad.copy_(g)"},
         "'.{}' is {}, and cannot become {}", name, to == nullptr ? "None" : type_string(*to),
         type_string(from));
  }
  const bool same = to->local().storage() == from.local().storage() &&
                    to->local().offset() == from.local().offset() &&
                    to->local().meta() == from.local().meta();
  if (same) return;
  const NoGradGuard quiet;
  tensor_op("copy_", {detach(*to), from});
}

Value Interpreter::call_function(const FunctionValue& function, CallValues call) {
  if (function.hooks->hooks.empty() || !grad_enabled()) {
    return call_unhooked(function, std::move(call));
  }
  return call_hooked(*this, function, std::move(call),
                     [&](CallValues passed) { return call_unhooked(function, std::move(passed)); });
}

// Then only names hold the arguments: one that is rebound is free, as in Python.
void Interpreter::bind_locals(Frame& frame, const FunctionValue& function, CallValues call) {
  using Kind = ast::Parameter::Kind;
  const auto& parameters = function.function->parameters;
  std::vector<std::string> names;
  std::size_t places = 0;  // of positional arguments
  const auto has = [&](Kind kind) {
    return std::ranges::find(parameters, kind, &ast::Parameter::kind) != parameters.end();
  };
  for (const ast::Parameter& parameter : parameters) {
    places += parameter.kind == Kind::kPlain ? 1 : 0;
    if (parameter.kind == Kind::kRest || parameter.kind == Kind::kKeywords) continue;
    names.push_back(parameter.name + (parameter.default_value ? "=" : ""));
  }
  Values rest;
  if (call.positional.size() > places && has(Kind::kRest)) {
    const auto first = call.positional.begin() + static_cast<std::ptrdiff_t>(places);
    rest.assign(std::make_move_iterator(first), std::make_move_iterator(call.positional.end()));
    call.positional.resize(places);
  } else if (call.positional.size() > places && has(Kind::kNamed)) {
    fail(Fix{"name the arguments after the star: f(a, b=1)"},
         "{}: the number of arguments without names is {}, and it takes at most {}",
         function.function->name, call.positional.size(), places);
  }
  const Parameters given(
      {function.function->name, {names.begin(), names.end()}, has(Kind::kKeywords)},
      std::move(call));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    if (parameters[i].kind == Kind::kRest) {
      frame.bind(name, make_tuple(std::move(rest)));
    } else if (parameters[i].kind == Kind::kKeywords) {
      const DictValue dict = make_dict();
      for (const auto& [keyword, value] : given.others()) store(dict, keyword, value);
      frame.bind(name, dict);
    } else {
      frame.bind(name, given.given(name) ? given[name] : (*function.defaults)[i]);
    }
  }
}

Value Interpreter::call_unhooked(const FunctionValue& function, CallValues call) {
  Frame frame{function.function.get(), {}, {}, frame_};
  if (function.captured != nullptr) frame.cells = *function.captured;
  for (const std::string& name : function.function->shared) frame.cells[name] = cells_->make();
  bind_locals(frame, function, std::move(call));
  // A count of calls, unlike the remaining room on a stack, is the same in every build.
  if (calls_ == kMostNestedCalls) {
    fail(ErrorKind::kRuntime, Fix{"does a def call itself without an end?"},
         "calls are nested too deeply: more than {}", kMostNestedCalls);
  }
  const SourceSpan place = position_;
  count_pass("def", for_steps_, 10 * setup_.step_limit, place);
  Frame* const caller = std::exchange(frame_, &frame);
  const std::size_t names_of_caller = std::exchange(own_names_, comprehended_.size());
  ++calls_;
  returned_ = {};
  const auto leave = [&] {
    --calls_;
    own_names_ = names_of_caller;
    frame_ = caller;
  };
  try {
    execute(function.function->body);
  } catch (...) {
    leave();
    throw;
  }
  if (setup_.sink != nullptr) {
    for (const auto& [name, value] : frame.locals) {
      setup_.sink->replaced(full_name(name), value, Value());
    }
  }
  leave();
  enter(place);
  return std::exchange(returned_, Value());
}

std::shared_ptr<Cell> Interpreter::keep(Value value) {
  std::shared_ptr<Cell> cell = cells_->make();
  cell->value = std::move(value);
  return cell;
}

void Interpreter::assert_close(const Value& a, const Value& b) {
  note_effect("assert_close");
  const Where where{setup_.program->source, position_};
  if (setup_.sink != nullptr) setup_.sink->asserted_close(a, b, where);
}

void Interpreter::report_backward(const DTensor& loss, const DTensor& seed) {
  if (setup_.sink != nullptr) setup_.sink->backward_begins(loss, seed);
}

void Interpreter::backward_from(const DTensor& loss, const DTensor& seed, Graph graph) {
  report_backward(loss, seed);
  using Tell = std::function<void(const std::string& name, const DTensor& grad)>;
  const auto each_gradient = [this](const Tell& tell) {
    if (setup_.sink == nullptr) return;
    for (const auto& [name, value] : globals_) {
      if (!value.is_tensor()) continue;
      tell(name, grad_of(value.as<DTensor>()));
    }
  };
  each_gradient([this](const std::string& name, const DTensor& grad) {
    setup_.sink->gradient_kept(name, grad);
  });
  backward(loss, seed, graph);
  each_gradient([this](const std::string& name, const DTensor& grad) {
    setup_.sink->gradient_came(name, grad);
  });
}

void Interpreter::print(const std::string& text) {
  note_effect("print");
  printed_ += text;
  for (std::size_t end; (end = printed_.find('\n')) != std::string::npos;) {
    if (setup_.sink != nullptr) setup_.sink->printed(printed_.substr(0, end));
    printed_.erase(0, end + 1);
  }
}

}  // namespace shardlab
