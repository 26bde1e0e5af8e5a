// Expressions, one overload per kind of node. Evaluation is from left to right as in Python. A
// value that differs between the ranks that this run represents stays a function of the rank (lift)
// until its value is needed (settle).
#include <fmt/args.h>

#include <algorithm>

#include "sim/language/run/call_names.h"
#include "sim/language/run/interpreter_frame.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/language/values/global_names.h"
#include "sim/language/values/nesting.h"
#include "sim/language/values/python_error.h"
#include "sim/language/values/python_format.h"
#include "sim/language/values/rank_value.h"

namespace shardlab {

Value Interpreter::evaluate(const ast::Expression& expression) {
  check_stack();
  return std::visit([&](const auto& node) { return eval_node(expression, node); }, expression.node);
}

Value Interpreter::eval_node(const ast::Expression&, const ast::Constant& node) {
  return std::visit([](const auto& value) { return Value(value); }, node.value);
}

const Value* Interpreter::known_name(const std::string& module, const std::string& name) {
  auto& known = known_names_[module];
  const auto found = known.find(name);
  if (found != known.end()) return &found->second;
  auto value = module.empty() ? find_global(name, *setup_.registry)
                              : find_in_module(module, name, *setup_.registry);
  return value ? &known.emplace(name, std::move(*value)).first->second : nullptr;
}

Value Interpreter::eval_node(const ast::Expression& expression, const ast::Name& node) {
  constexpr const char* kAssign = "assign to it first, on every way that leads here";
  const auto now = [this](const Value& value) {
    return value.is<RankValue>() && !represents_several() ? here(value) : value;
  };
  if (const OwnName* own = find_own(node.id)) return now(*own->value);
  if (frame_ != nullptr) {
    if (const Value* local = frame_->find(node.id)) return now(*local);
    if (frame_->knows(node.id)) {
      enter(expression.span);
      fail_as("UnboundLocalError: " + node.id, Fix{kAssign},
              "'{}' is used before it has a value in {}", node.id, frame_->function->name);
    }
  }
  const auto found = globals_.find(node.id);
  if (found != globals_.end()) return now(found->second);
  if (const Value* known = known_name("", node.id)) return *known;
  enter(expression.span);
  fail_as(fmt::format("NameError: name '{}' is not defined", node.id), Fix{kAssign},
          "'{}' is used before it has a value", node.id);
}

Value Interpreter::eval_node(const ast::Expression&, const ast::Attribute& node) {
  const Value object = evaluate(*node.object);
  enter(node.name_span);
  return attribute(settle(object), node.name);
}

namespace {

// A number with the name of a namespace: F.linear is then no function.
void refuse_hidden(const ast::Attribute& node, const OpRegistry& registry) {
  const auto* name = node.object->get<ast::Name>();
  if (name == nullptr) return;
  const auto hidden = find_global(name->id, registry);
  if (!hidden || !hidden->is<ModuleValue>()) return;
  fail(Fix{"give the number another name"}, "'{0}' is a number here, which hides the namespace {0}",
       name->id);
}

const DictEntries& entries_of(const Value& value) {
  if (const auto* dict = value.get<DictValue>()) return *dict->entries;
  fail(Fix{"give a dict: **{\"a\": 1}"}, "'**' is followed by {}, not a dict", a_kind(value));
}

// The keywords of f(**value).
void add_keywords(CallValues& call, const Value& value) {
  for (const auto& [key, entry] : entries_of(value)) {
    if (!key.is<std::string>()) {
      fail(Fix{"name the arguments by strings"}, "a key after '**' is {}, not a str", a_kind(key));
    }
    call.keywords.emplace_back(key.as<std::string>(), entry);
  }
}

}  // namespace

Value Interpreter::eval_node(const ast::Expression& expression, const ast::Call& node) {
  const bool shown = shown_ == &expression;
  // A method is called on its object directly; everything else is evaluated first.
  const auto* method = node.function->get<ast::Attribute>();
  const Value target = evaluate(method != nullptr ? *method->object : *node.function);
  CallValues call;
  call.positional.reserve(node.arguments.size());
  const auto* name = node.function->get<ast::Name>();
  const bool prints = name != nullptr && std::string_view(name->id) == "print";
  for (const ast::CallArgument& argument : node.arguments) {
    if (prints) shown_ = argument.value.get();
    Value value = evaluate(*argument.value);
    if (prints) report_number(*argument.value, value);
    if (argument.starred) {
      enter(argument.span);
      for (Value& item : iterate(value)) call.positional.push_back(std::move(item));
    } else if (argument.keyword == ast::kDoubleStar) {
      enter(argument.span);
      add_keywords(call, value);
    } else if (argument.keyword.empty()) {
      call.positional.push_back(std::move(value));
    } else {
      call.keywords.emplace_back(argument.keyword, std::move(value));
    }
  }
  enter(method != nullptr && !target.is<ModuleValue>() ? method->name_span : expression.span);
  if (read_by(node) != nullptr && (method != nullptr || call.positional.size() == 1)) {
    report_read(ast::print, expression, method != nullptr ? target : call.positional[0],
                shown || prints);
  }
  if (method == nullptr) return this->call(target, std::move(call));
  if (target.is_number()) refuse_hidden(*method, *setup_.registry);
  if (target.is<ModuleValue>()) return this->call(attribute(target, method->name), std::move(call));
  return taken(expression.span, target, call_method(target, method->name, std::move(call)));
}

Value Interpreter::eval_node(const ast::Expression& expression, const ast::Unary& node) {
  const Value operand = evaluate(*node.operand);
  enter(expression.span);
  return unary(node.op, operand);
}

Value Interpreter::eval_node(const ast::Expression& expression, const ast::Binary& node) {
  const Value left = evaluate(*node.left);
  const Value right = evaluate(*node.right);
  enter(expression.span);
  return binary(node.op, left, right);
}

Value Interpreter::eval_node(const ast::Expression& expression, const ast::Compare& node) {
  const bool shown = shown_ == &expression;
  if (shown) shown_ = node.operands[0].get();
  Value left = evaluate(*node.operands[0]);
  for (std::size_t i = 0; i < node.ops.size(); ++i) {
    if (shown) shown_ = node.operands[i + 1].get();
    Value right = evaluate(*node.operands[i + 1]);
    report_read(name_of_operand, *node.operands[i], left, shown);
    report_read(name_of_operand, *node.operands[i + 1], right, shown);
    enter(expression.span);
    Value holds = compare(node.ops[i], left, right);
    const bool last = i + 1 == node.ops.size();
    if (last || !truth(holds)) return holds;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::eval_node(const ast::Expression&, const ast::Logical& node) {
  const bool stops_at = node.op == ast::BoolOp::kOr;
  for (std::size_t i = 0; i + 1 < node.operands.size(); ++i) {
    Value value = evaluate(*node.operands[i]);
    if (truth(value) == stops_at) return value;
  }
  return evaluate(*node.operands.back());
}

Value Interpreter::eval_node(const ast::Expression&, const ast::Conditional& node) {
  return evaluate(truth(evaluate(*node.condition)) ? *node.when_true : *node.when_false);
}

Value Interpreter::eval_node(const ast::Expression& expression, const ast::Subscript& node) {
  const Value object = evaluate(*node.object);
  const Value key = evaluate(*node.index);
  enter(expression.span);
  const auto* ranks = object.get<RankValue>();
  if (ranks != nullptr && ranks->here->is_sequence()) {
    return lift({object, key}, [this](const Values& both) { return index(both[0], both[1]); });
  }
  const Value settled = ranks != nullptr ? settle(object) : object;
  return taken(expression.span, settled, index(settled, settle(key)));
}

Value Interpreter::eval_node(const ast::Expression&, const ast::Slice& node) {
  Values parts;
  for (const auto* part : {&node.start, &node.stop, &node.step}) {
    parts.push_back(*part ? evaluate(**part) : Value());
  }
  return SliceValue{std::make_shared<const Values>(std::move(parts))};
}

Value Interpreter::eval_node(const ast::Expression& expression, const ast::List& node) {
  Values items = items_in(node.items);
  enter(expression.span);
  check_size(items);
  return make_list(std::move(items));
}

Value Interpreter::eval_node(const ast::Expression& expression, const ast::Tuple& node) {
  Values items = items_in(node.items);
  enter(expression.span);
  check_size(items);
  return make_tuple(std::move(items));
}

Values Interpreter::items_in(const std::vector<ast::ExpressionPtr>& display) {
  Values items;
  items.reserve(display.size());
  for (const auto& item : display) {
    const auto* rest = item->get<ast::Starred>();
    if (rest == nullptr) {
      items.push_back(evaluate(*item));
      continue;
    }
    const Value several = evaluate(*rest->value);
    enter(item->span);
    for (Value& one : iterate(several)) items.push_back(std::move(one));
  }
  return items;
}

namespace {

// Known where Python compiles it.
bool is_constant(const ast::ExpressionPtr& item) {
  if (const auto* unary = item->get<ast::Unary>()) return is_constant(unary->operand);
  if (const auto* binary = item->get<ast::Binary>()) {
    return is_constant(binary->left) && is_constant(binary->right);
  }
  if (const auto* tuple = item->get<ast::Tuple>()) {
    return std::ranges::all_of(tuple->items, is_constant);
  }
  return item->is<ast::Constant>();
}

// Python makes a set of three or more constants when it compiles, once more for its table of
// constants, and a copy when it runs: items that collide take other places.
Value copied_constant(const DictValue& set) {
  const Value again = make_set({}), copy = make_set({});
  for (const auto& [item, none] : *set.entries) again.as<DictValue>().entries->set(item, none);
  copy.as<DictValue>().entries->merge(*again.as<DictValue>().entries);
  return copy;
}

}  // namespace

Value Interpreter::eval_node(const ast::Expression& expression, const ast::Set& node) {
  const Values items = items_in(node.items);
  enter(expression.span);
  const Value made = make_set(items);
  const bool constant = items.size() > 2 && std::ranges::all_of(node.items, is_constant);
  return constant ? copied_constant(made.as<DictValue>()) : made;
}

Value Interpreter::eval_node(const ast::Expression& expression, const ast::Starred&) {
  enter(expression.span);
  fail(Fix{"write it in a list or a tuple: [*a]"}, "a star is not used here");
}

Value Interpreter::eval_node(const ast::Expression& expression, const ast::Walrus& node) {
  const Value value = evaluate(*node.value);
  bind(node.name, value);
  report(node.name, value, expression.span);
  return value;
}

Value Interpreter::eval_node(const ast::Expression& expression, const ast::Dict& node) {
  const DictValue dict = make_dict();
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const Value key = node.keys[i] ? settle(evaluate(*node.keys[i])) : Value();
    const Value value = evaluate(*node.values[i]);
    enter(expression.span);
    if (node.keys[i]) {
      store(dict, key, value);
      continue;
    }
    for (const auto& [name, entry] : entries_of(value)) store(dict, name, entry);
  }
  return dict;
}

Value Interpreter::eval_node(const ast::Expression& expression, const ast::Comprehension& node) {
  // The names of a comprehension live in it only, as in Python.
  const std::size_t before = comprehended_.size();
  std::vector<std::string> names;
  for (const auto& loop : node.loops) ast::collect_targets(*loop.target, names);
  for (std::string& name : names) comprehended_.push_back({std::move(name), std::nullopt});
  struct Leave {
    std::vector<OwnName>& names;
    std::size_t before;
    ~Leave() { names.resize(before); }
  } const leave{comprehended_, before};
  Values items;
  const DictValue dict = make_dict();
  comprehend(node, 0, [&] {
    if (!node.key) return items.push_back(evaluate(*node.element));
    const Value key = settle(evaluate(*node.key));
    const Value value = evaluate(*node.element);
    enter(expression.span);
    store(dict, key, value);
  });
  enter(expression.span);
  if (node.key) return dict;
  if (node.set) return make_set(items);
  check_size(items);
  return make_list(std::move(items));
}

void Interpreter::comprehend(const ast::Comprehension& node, std::size_t loop,
                             const std::function<void()>& item) {
  if (loop == node.loops.size()) return item();
  const auto& part = node.loops[loop];
  const Value iterable = evaluate(*part.iterable);
  enter(part.iterable->span);
  for (const Value& value : iterate(iterable)) {
    count_pass("for", for_steps_, 10 * setup_.step_limit, part.iterable->span);
    assign(*part.target, value, {0, 0});
    bool wanted = true;
    for (const auto& condition : part.conditions) wanted = wanted && truth(evaluate(*condition));
    if (wanted) comprehend(node, loop + 1, item);
  }
}

Value Interpreter::eval_node(const ast::Expression& expression, const ast::FormatString& node) {
  Values values;
  for (const auto& part : node.parts) {
    if (part.expression) shown_ = part.expression.get();
    values.push_back(part.expression ? evaluate(*part.expression) : Value());
    if (part.expression) report_number(*part.expression, values.back());
    enter(expression.span);
    if (sizes_ != nullptr) values.back() = settle(values.back());
    values.push_back(part.format ? evaluate(*part.format) : Value(std::string()));
    enter(expression.span);
  }
  return lift(std::move(values), [&node](const Values& given) -> Value {
    std::string out;
    for (std::size_t i = 0; i < node.parts.size(); ++i) {
      const auto& part = node.parts[i];
      out += part.text + part.echo;
      if (!part.expression) continue;
      const Value& value = given[2 * i];
      const auto& format = given[2 * i + 1].as<std::string>();
      out += part.conversion == 'r'   ? python_format(repr(value), format)
             : part.conversion == 's' ? python_format(str(value), format)
                                      : python_format(value, format);
      check_text_size(out.size());
    }
    return out;
  });
}

}  // namespace shardlab
