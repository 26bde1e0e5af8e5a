// Calls: user functions, built-in functions, methods and ops.
#include <algorithm>

#include "autograd/program.h"
#include "base/error.h"
#include "ops/torch/torch_names.h"
#include "schema/op_row.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/values/global_names.h"
#include "sim/language/values/object.h"
#include "sim/language/values/op_call.h"
#include "sim/language/values/rank_value.h"
#include "sim/language/values/size_value.h"
#include "sim/world/rank_questions.h"

namespace shardlab {

bool Interpreter::represents_several() const {
  return setup_.questions != nullptr && !setup_.questions->settled();
}

bool Interpreter::varying(const Value& value) const {
  return setup_.questions != nullptr && varies(value);
}

Value Interpreter::settle(const Value& value) {
  if (sizes_ != nullptr && holds_size(value)) return settle(sizes_->fixed(value));
  if (!varying(value)) return value;
  setup_.questions->ask(
      [&](std::int64_t rank) { return fingerprint([&] { return at_rank(value, rank); }); });
  return here(value);
}

void Interpreter::settle_arguments(CallValues& call) {
  const auto settle_one = [this](Value& value) {
    if (sizes_ != nullptr || varying(value)) value = settle(value);
  };
  for (Value& value : call.positional) settle_one(value);
  for (auto& [keyword, value] : call.keywords) settle_one(value);
}

// Functions of numbers are put off; a value that is printed, or is data of a tensor, decides
// nothing.
std::optional<Value> Interpreter::call_varying(const BuiltinValue& builtin, CallValues& call) {
  static constexpr std::string_view kPutOff[] = {"abs", "float", "int",  "len",
                                                 "max", "min",   "repr", "str"};
  static constexpr std::string_view kDecidesNothing[] = {"print", "tensor"};
  const std::string_view name = builtin.builtin->name;
  if (builtin.self == nullptr && std::ranges::count(kDecidesNothing, name) > 0) {
    for (Value& value : call.positional) value = here(value);
  } else if (builtin.self == nullptr && call.keywords.empty() &&
             std::ranges::count(kPutOff, name) > 0) {
    return lift(call.positional, [this, own = builtin.builtin](const Values& operands) {
      return own->run(*this, nullptr, {operands, {}});
    });
  }
  return std::nullopt;
}

namespace {

// An op, or a factory of a tensor of given sizes: sizes may be symbols.
bool takes_sizes(const Value& function) {
  if (const auto* builtin = function.get<BuiltinValue>()) {
    return builtin->self == nullptr &&
           find_builtin(factory_builtins(), builtin->builtin->name) != nullptr;
  }
  return function.is<OpValue, RowValue, ModuleValue>();
}

}  // namespace

Value Interpreter::call(const Value& function, CallValues call) {
  check_stack();
  if (const auto* user = function.get<FunctionValue>())
    return call_function(*user, std::move(call));
  if (sizes_ != nullptr && !takes_sizes(function)) settle_arguments(call);
  if (setup_.questions != nullptr) {
    const auto* builtin = function.get<BuiltinValue>();
    if (builtin != nullptr) {
      if (auto result = call_varying(*builtin, call)) return std::move(*result);
    }
    if (builtin == nullptr || !builtin->builtin->settles) settle_arguments(call);
  }
  if (const auto* builtin = function.get<BuiltinValue>()) {
    return builtin->builtin->run(*this, builtin->self.get(), std::move(call));
  }
  if (const auto* op = function.get<OpValue>()) {
    if (op->self) call.positional.insert(call.positional.begin(), *op->self);
    return call_op(op->name, std::move(call));
  }
  if (sizes_ != nullptr) call = sizes_->marked(call);
  if (const auto* row = function.get<RowValue>()) {
    return call_row(*row->row, bind_arguments(*row->row, arguments_of(row->row->name(), call),
                                              BindRules::Style::kPython));
  }
  if (const auto* object = function.get<ObjectValue>()) {
    auto* callable = dynamic_cast<Callable*>(object->object.get());
    if (callable != nullptr) return callable->call(*this, std::move(call));
  }
  const auto* module = function.get<ModuleValue>();
  if (const std::string op = module ? op_of_module(module->path) : ""; !op.empty()) {
    ResolvedCall resolved = resolve_call(*setup_.registry, op, arguments_of(op, call));
    return call_row(*resolved.row, std::move(resolved.args));
  }
  if (module != nullptr && module->path == kDeviceMeshType) {
    return find_builtin(device_mesh_builtins(), kMakeMesh)->run(*this, nullptr, std::move(call));
  }
  if (module != nullptr && module->path == kDTensorType) {
    fail(Fix{"distribute_tensor(t, mesh, [S(0)]) or DTensor.from_local(t, mesh, [S(0)]), with a "
             "placement for each mesh dim"},
         "DTensor cannot be called");
  }
  fail(Fix{"call a function; index with [ ]"}, "{} cannot be called", a_kind(function));
}

Value Interpreter::call_method(const Value& object, const std::string& name, CallValues call) {
  if (setup_.questions != nullptr) {
    // A list may hold varying values; all other methods read their arguments.
    const std::string_view called = name;
    const bool adds = called == "append" || called == "extend";
    if (!adds && called != "pop" && varies(object)) {
      return call_method(settle(object), name, std::move(call));
    }
    if (!adds) settle_arguments(call);
  }
  const Builtin* method = find_builtin(members_of(object), name);
  if (sizes_ != nullptr && method != nullptr) settle_arguments(call);
  if (method != nullptr && method->member != Member::kValue) {
    return method->run(*this, &object, std::move(call));
  }
  if (!object.is_tensor()) return this->call(attribute(object, name), std::move(call));
  call.positional.insert(call.positional.begin(), object);
  if (!is_torch_name(*setup_.registry, name)) refuse_attribute(object, name, *setup_.registry);
  return call_op(name, std::move(call));
}

Value Interpreter::call_op(std::string_view name, const CallValues& call) {
  ResolvedCall resolved = resolve_torch_call(
      *setup_.registry, name, arguments_of(name, sizes_ != nullptr ? sizes_->marked(call) : call));
  return call_row(*resolved.row, std::move(resolved.args));
}

Value Interpreter::call_row(const OpRow& row, Arguments args) {
  if (sizes_ != nullptr) sizes_->unmark(row, args);
  wrap_numbers(row, args);
  return value_of(program_calls().call(row, args), row);
}

DTensor Interpreter::tensor_op(std::string_view base, Values positional) {
  const Value result = call_op(base, {std::move(positional), {}});
  if (const auto* tensor = result.get<DTensor>()) return *tensor;
  fail(ErrorKind::kInternal, "{} gave {} instead of one tensor", base, kind_name(result));
}

DTensor Interpreter::cast(const DTensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  return program_calls().one("aten::_to_copy", {tensor, dtype});
}

}  // namespace shardlab
