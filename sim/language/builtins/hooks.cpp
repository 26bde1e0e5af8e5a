// Hooks of backward: on a tensor, and on a def as on PyTorch's modules. The tape holds variables
// that the program empties at its end, never the functions themselves.
#include "autograd/hooks.h"

#include <algorithm>

#include "autograd/tape.h"
#include "base/error.h"
#include "sim/language/run/module_hooks.h"
#include "sim/language/values/object.h"

namespace shardlab {

namespace {

using Remove = std::function<void(Interpreter& in)>;

class Handle final : public Object {
 public:
  explicit Handle(Remove remove) : remove_(std::move(remove)) {}
  std::string_view kind() const override { return "handle"; }
  BuiltinTable members() const override;
  void remove(Interpreter& in) const { remove_(in); }

 private:
  Remove remove_;
};

Value run_remove(Interpreter& in, const Value* self, const Parameters&) {
  dynamic_cast<const Handle&>(*self->as<ObjectValue>().object).remove(in);
  return {};
}

constexpr std::string_view kHookName[] = {"register_full_backward_pre_hook",
                                          "register_full_backward_hook"};

const Value& hook_of(const Parameters& given) {
  const Value& hook = given["hook"];
  if (hook.is<FunctionValue, BuiltinValue, OpValue>()) return hook;
  given.refuse("hook", "a function", "scaled, after def scaled(gradient): return gradient * 2");
}

DTensor gradient_of(const Value& value, std::string_view hook) {
  if (value.is_none()) return {};
  if (const auto* tensor = value.get<DTensor>()) return *tensor;
  fail(ErrorKind::kRuntime, Fix{"return a gradient, or nothing to keep the one that is there"},
       "{}: a hook returned {}", hook, a_kind(value));
}

Value value_of_gradient(const DTensor& gradient) {
  return gradient.defined() ? Value(gradient) : Value();
}

// An entry for each position; None if it has no tensor.
Value packed(const std::vector<DTensor>& gradients, const std::vector<std::size_t>& places,
             std::size_t count) {
  Values all(count);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    all[places[i]] = value_of_gradient(gradients[i]);
  }
  return make_tuple(std::move(all));
}

std::vector<DTensor> unpacked(const Value& gradients, const std::vector<std::size_t>& places,
                              std::string_view hook) {
  std::vector<DTensor> out;
  for (const std::size_t place : places) {
    out.push_back(gradient_of(items_of(gradients)[place], hook));
  }
  return out;
}

// Common data of forward and backward for one call of a hooked def.
struct HookedCall {
  Interpreter& in;
  std::shared_ptr<Cell> function;
  std::vector<std::shared_ptr<Cell>> before, after;
  std::size_t argument_count = 0, result_count = 0;
  std::vector<std::size_t> argument_places, result_places;  ///< of tensors
  bool wanted = false;                                      ///< an argument requires a gradient
  Value grad_output;                                        ///< None: backward has not been here

  Value run(const std::shared_ptr<Cell>& hook, Values arguments) const {
    if (!hook->value) return {};
    arguments.insert(arguments.begin(), *function->value);
    return in.call(*hook->value, {std::move(arguments), {}});
  }

  void check_count(const Value& result, std::size_t count, std::string_view name,
                   std::string_view what) const {
    if (result.is_sequence() && items_of(result).size() == count) return;
    const std::string found =
        result.is_sequence() ? fmt::format("{}", items_of(result).size()) : a_kind(result);
    fail(ErrorKind::kRuntime,
         Fix{fmt::format("return a tuple with an entry for each entry of {}, or nothing", what)},
         "{}: the number of entries of {} is {}, and a hook returned {}", name, what, count, found);
  }

  std::vector<DTensor> arrives(const std::vector<DTensor>& gradients) {
    const std::string_view name = kHookName[0];
    grad_output = packed(gradients, result_places, result_count);
    for (const auto& hook : before) {
      const Value result = run(hook, {grad_output});
      if (result.is_none()) continue;
      check_count(result, result_count, name, "grad_output");
      grad_output = make_tuple(items_of(result));
    }
    const std::vector<DTensor> out = unpacked(grad_output, result_places, name);
    if (!wanted) ends();
    return out;
  }

  // No argument requires a gradient.
  void ends() {
    for (const auto& hook : after) {
      const Value result = run(hook, {make_tuple(Values(argument_count)), grad_output});
      const bool nothing =
          result.is_none() ||
          (result.is_sequence() && std::ranges::all_of(items_of(result), &Value::is_none));
      if (nothing) continue;
      fail(ErrorKind::kRuntime, Fix{"return nothing where no argument requires a gradient"},
           "{}: a hook returned {} where there is no gradient to replace", kHookName[1],
           a_kind(result));
    }
    grad_output = {};
  }

  std::vector<DTensor> leaves(const std::vector<DTensor>& gradients) {
    if (grad_output.is_none()) return gradients;  // it did not come through the results
    Value grad_input = packed(gradients, argument_places, argument_count);
    for (const auto& hook : after) {
      const Value result = run(hook, {grad_input, grad_output});
      if (result.is_none()) continue;
      check_count(result, argument_count, kHookName[1], "grad_input");
      grad_input = make_tuple(items_of(result));
    }
    grad_output = {};
    return unpacked(grad_input, argument_places, kHookName[1]);
  }
};

void enter_hooked(const std::shared_ptr<HookedCall>& hooked, CallValues& call) {
  std::vector<DTensor> tensors;
  for (std::size_t i = 0; i < call.positional.size(); ++i) {
    const auto* tensor = call.positional[i].get<DTensor>();
    if (tensor == nullptr) continue;
    tensors.push_back(*tensor);
    hooked->argument_places.push_back(i);
    hooked->wanted = hooked->wanted || requires_grad(*tensor);
  }
  hooked->argument_count = call.positional.size();
  if (!hooked->wanted) return;
  tensors = hook_gradients(tensors, MissingGradients::kZeros,
                           [hooked](const auto& gradients) { return hooked->leaves(gradients); });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    call.positional[hooked->argument_places[i]] = tensors[i];
  }
}

Value leave_hooked(const std::shared_ptr<HookedCall>& hooked, const FunctionValue& function,
                   const Value& result) {
  if (!result.is_tensor() && !result.is<TupleValue>()) {
    fail(Fix{"return a tensor or a tuple of tensors"}, "{} has backward hooks and returns {}",
         function.function->name, a_kind(result));
  }
  Values items = result.is_tensor() ? Values{result} : Values(items_of(result));
  std::vector<DTensor> tensors;
  bool recorded = false;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto* tensor = items[i].get<DTensor>();
    if (tensor == nullptr) continue;
    tensors.push_back(*tensor);
    hooked->result_places.push_back(i);
    recorded = recorded || requires_grad(*tensor);
  }
  hooked->result_count = items.size();
  if (!recorded) return result;
  tensors = hook_gradients(tensors, MissingGradients::kUndefined,
                           [hooked](const auto& gradients) { return hooked->arrives(gradients); });
  for (std::size_t i = 0; i < tensors.size(); ++i) items[hooked->result_places[i]] = tensors[i];
  return result.is_tensor() ? items[0] : make_tuple(std::move(items));
}

template <ModuleHooks::When kWhen>
Value run_register_module(Interpreter& in, const Value* self, CallValues call) {
  const Parameters given({kHookName[static_cast<std::size_t>(kWhen)], {"hook"}}, std::move(call));
  const std::shared_ptr<ModuleHooks>& all = self->as<FunctionValue>().hooks;
  const std::uint64_t id = ++all->made;
  all->hooks.push_back({id, kWhen, in.keep(hook_of(given))});
  // A capture sees at its end the hooks of the defs around it: all but those that existed at its
  // begin and are gone.
  if (in.effects() != nullptr) in.effects()->hooks.insert({all.get(), id});
  const auto remove = [hooks = std::weak_ptr<ModuleHooks>(all), id](Interpreter& here) {
    const Effects* effects = here.effects();
    const bool own = effects != nullptr && effects->hooks.contains({hooks.lock().get(), id});
    if (!own) here.note_effect("remove of a hook");
    if (const auto left = hooks.lock()) {
      std::erase_if(left->hooks, [id](const auto& hook) { return hook.id == id; });
    }
  };
  return ObjectValue{std::make_shared<Handle>(remove)};
}

BuiltinTable Handle::members() const { return handle_methods(); }

}  // namespace

Value call_hooked(Interpreter& in, const FunctionValue& function, CallValues call,
                  const std::function<Value(CallValues)>& run) {
  const auto hooked = std::make_shared<HookedCall>(HookedCall{in, in.keep(function), {}, {}});
  for (const ModuleHooks::Hook& hook : function.hooks->hooks) {
    (hook.when == ModuleHooks::When::kBefore ? hooked->before : hooked->after).push_back(hook.run);
  }
  enter_hooked(hooked, call);
  return leave_hooked(hooked, function, run(std::move(call)));
}

Value run_register_hook(Interpreter& in, const Value* self, CallValues call) {
  const Parameters given("register_hook(hook)", std::move(call));
  const auto run = [&in, hook = in.keep(hook_of(given))](const DTensor& gradient) {
    if (!hook->value) return DTensor();
    return gradient_of(in.call(*hook->value, {{gradient}, {}}), "register_hook");
  };
  HookHandle handle = register_hook(self->as<DTensor>(), run);
  return ObjectValue{std::make_shared<Handle>([handle](Interpreter&) mutable { handle.remove(); })};
}

BuiltinTable handle_methods() {
  static const Builtin kTable[] = {{"remove", "()", run_remove}};
  return kTable;
}

BuiltinTable function_methods() {
  static const Builtin kTable[] = {
      {"register_full_backward_hook", run_register_module<ModuleHooks::When::kAfter>},
      {"register_full_backward_pre_hook", run_register_module<ModuleHooks::When::kBefore>},
  };
  return kTable;
}

}  // namespace shardlab
