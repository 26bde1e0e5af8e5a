// torch.autograd.Function: F.apply(...) calls the class's forward with a context, and backward
// calls its backward with the same one. The tape holds variables that the program empties at its
// end, never the context or the functions themselves.
#include <algorithm>

#include "autograd/custom_function.h"
#include "base/error.h"

#include "sim/language/run/function_class.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/values/cells.h"

namespace shardlab {

namespace {

constexpr const char* kTakesTensors = "give it tensors: ctx.save_for_backward(x, w)";

// Attributes are stored in variables, as they may lead back to the context.
class FunctionCtx final : public Object {
 public:
  std::string_view kind() const override { return "context of a Function"; }
  BuiltinTable members() const override { return function_context_methods(); }
  const Value* find(std::string_view name) const override {
    const auto found = attributes_.find(name);
    return found == attributes_.end() || !found->second->value ? nullptr : &*found->second->value;
  }
  bool set(Interpreter& in, const std::string& name, const Value& value) override {
    attributes_.insert_or_assign(name, in.keep(value));
    return true;
  }
  void begins(FunctionContext& context) { context_ = context.shared_from_this(); }
  FunctionContext& context() const { return *context_; }

 private:
  std::map<std::string, std::shared_ptr<Cell>, std::less<>> attributes_;
  std::shared_ptr<FunctionContext> context_;
};

FunctionContext& context_of(const Value* self) {
  return dynamic_cast<const FunctionCtx&>(*self->as<ObjectValue>().object).context();
}

// Undefined for a value that is no tensor.
DTensor tensor_or_none(const Value& value) {
  const auto* tensor = value.get<DTensor>();
  return tensor != nullptr ? *tensor : DTensor();
}

std::vector<DTensor> given_tensors(std::string_view function, const CallValues& call) {
  std::vector<DTensor> tensors;
  for (const Value& value : call.positional) {
    if (!value.is_tensor() && !value.is_none()) {
      fail(Fix{"keep other things as attributes: ctx.scale = scale"}, "ctx.{}: {} is no tensor",
           function, a_kind(value));
    }
    tensors.push_back(tensor_or_none(value));
  }
  if (!call.keywords.empty()) {
    fail(Fix{kTakesTensors}, "ctx.{} has no argument '{}'", function, call.keywords.front().first);
  }
  return tensors;
}

Value value_of_tensor(const DTensor& x) { return x.defined() ? Value(x) : Value(); }

Value run_save_for_backward(Interpreter&, const Value* self, CallValues call) {
  context_of(self).save_for_backward(given_tensors("save_for_backward", call));
  return {};
}

Value run_saved_tensors(Interpreter&, const Value* self, CallValues) {
  Values values;
  for (const DTensor& x : context_of(self).saved_tensors()) values.push_back(value_of_tensor(x));
  return make_tuple(std::move(values));
}

Value run_needs_input_grad(Interpreter&, const Value* self, CallValues) {
  Values needs;
  for (const bool need : context_of(self).needs_input_grad()) needs.emplace_back(need);
  return make_tuple(std::move(needs));
}

Value run_mark_non_differentiable(Interpreter&, const Value* self, CallValues call) {
  context_of(self).mark_non_differentiable(given_tensors("mark_non_differentiable", call));
  return {};
}

Value run_set_materialize_grads(Interpreter&, const Value* self, const Parameters& given) {
  context_of(self).set_materialize_grads(given.flag_or("value", true));
  return {};
}

Value run_mark_dirty(Interpreter&, const Value*, CallValues) {
  fail(ErrorKind::kUnsupported, Fix{"give a new tensor: y = x.clone(), and write that"},
       "ctx.mark_dirty: a Function that writes its argument has no gradient here");
}

// One call of F.apply, in forward and backward.
struct FunctionCall {
  Interpreter& in;
  std::string name;
  std::shared_ptr<Cell> context, backward;

  const Value& method(const FunctionClass& own, std::string_view which) const {
    if (const Value* found = own.find(which)) return *found;
    method_missing(which);
  }
  [[noreturn]] void method_missing(std::string_view which) const {
    fail(ErrorKind::kRuntime,
         Fix{fmt::format("write @staticmethod and def {}(ctx, ...) in class {}", which, name)},
         "{} has no {}", name, which);
  }

  // Puts values in the order of forward's names: backward gives a gradient for each.
  Values in_order(const FunctionClass& own, CallValues call) const {
    const auto& parameters = method(own, "forward").as<FunctionValue>().function->parameters;
    const std::size_t context_first = own.find("setup_context") == nullptr ? 1 : 0;
    Values all = std::move(call.positional);
    while (!call.keywords.empty()) {
      const std::size_t next = all.size() + context_first;
      const auto found = std::ranges::find_if(call.keywords, [&](const auto& keyword) {
        return next < parameters.size() && keyword.first == parameters[next].name;
      });
      if (found == call.keywords.end()) {
        fail(Fix{"name arguments of forward, without leaving one out between"},
             "{}.apply: '{}' is not the next argument of forward", name,
             call.keywords.front().first);
      }
      all.push_back(std::move(found->second));
      call.keywords.erase(found);
    }
    return all;
  }

  Value forward(const FunctionClass& own, const Values& arguments) const {
    const Value& run = method(own, "forward");
    if (own.find("setup_context") == nullptr) {
      Values all{*context->value};
      all.insert(all.end(), arguments.begin(), arguments.end());
      return in.call(run, {std::move(all), {}});
    }
    Value result = in.call(run, {arguments, {}});
    in.call(method(own, "setup_context"), {{*context->value, make_tuple(arguments), result}, {}});
    return result;
  }

  std::vector<DTensor> gradients(const std::vector<DTensor>& arrived) const {
    if (!context->value) return {};  // the program is over
    if (backward->value->is_none()) method_missing("backward");
    Values all{*context->value};
    for (const DTensor& gradient : arrived) all.push_back(value_of_tensor(gradient));
    const Value result = in.call(*backward->value, {std::move(all), {}});
    std::vector<DTensor> found;
    const Values one{result};
    for (const Value& value : result.is<TupleValue>() ? items_of(result) : one) {
      if (!value.is_tensor() && !value.is_none()) {
        fail(ErrorKind::kRuntime, Fix{"return a tensor, or None where there is no gradient"},
             "{}: backward gave {} for argument {}", name, a_kind(value), found.size());
      }
      found.push_back(tensor_or_none(value));
    }
    return found;
  }
};

Value run_apply(Interpreter& in, const Value* self, CallValues values) {
  const auto& own = dynamic_cast<const FunctionClass&>(*self->as<ObjectValue>().object);
  const auto ctx = std::make_shared<FunctionCtx>();
  const auto call = std::make_shared<FunctionCall>(
      FunctionCall{in, own.name(), in.keep(ObjectValue{ctx}), in.keep(Value())});
  if (const Value* backward = own.find("backward")) call->backward->value = *backward;
  const Values arguments = call->in_order(own, std::move(values));
  std::vector<DTensor> tensors;
  for (const Value& argument : arguments) tensors.push_back(tensor_or_none(argument));
  Values results;
  bool several = false;
  const auto forward = [&](FunctionContext& context) {
    ctx->begins(context);
    const Value result = call->forward(own, arguments);
    several = result.is<TupleValue>();
    results = several ? Values(items_of(result)) : Values{result};
    std::vector<DTensor> given;
    for (const Value& value : results) given.push_back(tensor_or_none(value));
    return given;
  };
  const auto backward = own.methods().find("backward");
  const std::vector<DTensor> passed = apply_function(
      {.name = own.name(),
       .forward = forward,
       .backward = [call](FunctionContext&,
                          const std::vector<DTensor>& arrived) { return call->gradients(arrived); },
       .once_differentiable =
           backward != own.methods().end() && backward->second.once_differentiable},
      tensors);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (passed[i].defined()) results[i] = passed[i];
  }
  return several ? make_tuple(std::move(results)) : results[0];
}

}  // namespace

Value FunctionClass::call(Interpreter&, CallValues) {
  fail(Fix{fmt::format("call {}.apply(x, ...)", name_)},
       "{} has no instances, as it is a torch.autograd.Function", name_);
}

BuiltinTable function_class_methods() {
  static const Builtin kTable[] = {{"apply", run_apply}};
  return kTable;
}

BuiltinTable function_context_methods() {
  constexpr Member kValue = Member::kValue;
  static const Builtin kTable[] = {
      {"mark_dirty", run_mark_dirty},
      {"mark_non_differentiable", run_mark_non_differentiable},
      {"needs_input_grad", run_needs_input_grad, kValue},
      {"save_for_backward", run_save_for_backward},
      {"saved_tensors", run_saved_tensors, kValue},
      {"set_materialize_grads", "ctx.set_materialize_grads(value)", run_set_materialize_grads},
  };
  return kTable;
}

}  // namespace shardlab
