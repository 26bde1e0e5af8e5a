// Functions that ask what a value is or has: getattr, hasattr, type, torch.finfo; and those that
// make one function of another: functools.partial, functools.reduce.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "sim/language/run/augmented.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/values/global_names.h"
#include "sim/language/values/nesting.h"
#include "sim/language/values/object.h"

namespace shardlab {

namespace {

// Null where the object has no such attribute. Methods of lists, dicts and texts are in one table,
// which does not say whose they are.
std::optional<Value> attribute_or_nothing(Interpreter& in, const Value& object,
                                          const std::string& name) {
  if (members_of(object).data() == container_methods().data()) {
    fail(ErrorKind::kUnsupported, Fix{"ask for its kind: isinstance(x, str)"},
         "{} is asked for its attribute '{}'", a_kind(object), name);
  }
  try {
    return in.attribute(object, name);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kValue) throw;
    return std::nullopt;
  }
}

Value run_getattr(Interpreter& in, const Value*, const Parameters& given) {
  const std::string name = given.text("name");
  if (!given.given("default")) return in.attribute(given["object"], name);
  return attribute_or_nothing(in, given["object"], name).value_or(given["default"]);
}

Value run_hasattr(Interpreter& in, const Value*, const Parameters& given) {
  return attribute_or_nothing(in, given["object"], given.text("name")).has_value();
}

// The function that makes such values, as isinstance() takes it.
Value run_type(Interpreter& in, const Value*, const Parameters& given) {
  const Value& value = given["object"];
  if (const auto* tensor = value.get<DTensor>()) {
    const auto distributed = [&] { return Value(tensor->distributed()); };
    const bool own = in.truth(in.answer(distributed, true));
    return ModuleValue{std::string(own ? kDTensorType : kTensorType)};
  }
  const std::string_view kind = kind_name(value);
  const Builtin* made_by = find_builtin(python_builtins(), kind);
  if (made_by != nullptr) return BuiltinValue{made_by, nullptr};
  fail(Fix{"ask with isinstance(x, Shard)"}, "type: the argument is {}", a_kind(value));
}

// Programs do not choose devices: torch.device("cuda") is that of every tensor.
Value run_device(Interpreter&, const Value*, const Parameters&) { return "cpu"; }

Value run_set(Interpreter& in, const Value*, const Parameters& given) {
  const Value set = make_set({});
  if (given.given("items")) extend(in, set, given["items"]);
  return set;
}

class Partial final : public Callable {
 public:
  Partial(Value function, CallValues given)
      : function_(std::move(function)), given_(std::move(given)) {}

  std::string_view kind() const override { return "partial function"; }

  // A keyword that is given again wins, as in Python.
  Value call(Interpreter& in, CallValues call) override {
    CallValues all = given_;
    std::ranges::move(call.positional, std::back_inserter(all.positional));
    for (auto& given : call.keywords) {
      std::erase_if(all.keywords, [&](const auto& other) { return other.first == given.first; });
      all.keywords.push_back(std::move(given));
    }
    return in.call(function_, std::move(all));
  }

 private:
  Value function_;
  CallValues given_;
};

Value run_partial(Interpreter&, const Value*, CallValues call) {
  if (call.positional.empty()) {
    fail(Fix{"call it as partial(f, x)"}, "partial: the function is missing");
  }
  Value function = call.positional.front();
  call.positional.erase(call.positional.begin());
  return ObjectValue{std::make_shared<Partial>(std::move(function), std::move(call))};
}

Value run_reduce(Interpreter& in, const Value*, const Parameters& given) {
  if (given["function"].is_tensor())
    given.refuse("function", "a function; of ranks: dist.reduce", "max");
  Values items = in.iterate(given["items"]);
  if (given.given("initial")) items.insert(items.begin(), given["initial"]);
  if (items.empty()) given.refuse("items", "a list with items", "[1, 2]");
  Value result = items.front();
  for (std::size_t i = 1; i < items.size(); ++i) {
    result = in.call(given["function"], {{result, items[i]}, {}});
  }
  return result;
}

// torch.utils.checkpoint.checkpoint(f, x): f is called once, as what it computes again is the same.
Value run_checkpoint(Interpreter& in, const Value*, CallValues call) {
  constexpr std::string_view kOptions[] = {"context_fn", "debug",         "determinism_check",
                                           "early_stop", "use_reentrant", "preserve_rng_state"};
  if (call.positional.empty()) {
    fail(Fix{"call it as checkpoint(f, x)"}, "checkpoint: the function is missing");
  }
  std::erase_if(call.keywords, [&](const auto& keyword) {
    return std::ranges::count(kOptions, keyword.first) > 0;
  });
  const Value function = call.positional.front();
  call.positional.erase(call.positional.begin());
  return in.call(function, std::move(call));
}

struct Limits {
  DType dtype;
  std::int64_t bits;
  double lowest, most, eps, tiny;
};

template <typename T>
constexpr Limits limits_of(DType dtype) {
  using L = std::numeric_limits<T>;
  return {dtype, 8 * sizeof(T), L::lowest(), L::max(), L::epsilon(), L::min()};
}
constexpr Limits kFloats[] = {
    limits_of<float>(DType::kF32),
    limits_of<double>(DType::kF64),
    {DType::kBF16, 16, -0x1.FEp127, 0x1.FEp127, 0x1p-7, 0x1p-126},
    {DType::kF16, 16, -65504, 65504, 0x1p-10, 0x1p-14},
    {DType::kF8E4M3FN, 8, -448, 448, 0x1p-3, 0x1p-6},
};

class FloatInfo final : public Object {
 public:
  explicit FloatInfo(const Limits& limits)
      : fields_{{"bits", limits.bits},  {"eps", limits.eps},   {"max", limits.most},
                {"min", limits.lowest}, {"tiny", limits.tiny}, {"smallest_normal", limits.tiny}} {}

  std::string_view kind() const override { return "finfo"; }
  const Value* find(std::string_view name) const override {
    const auto field = std::ranges::find(fields_, name, &std::pair<std::string, Value>::first);
    return field == fields_.end() ? nullptr : &field->second;
  }

 private:
  std::vector<std::pair<std::string, Value>> fields_;
};

Value run_finfo(Interpreter&, const Value*, const Parameters& given) {
  const DType dtype = given.dtype("dtype").value_or(DType::kF32);
  const auto* row = std::ranges::find(kFloats, dtype, &Limits::dtype);
  if (row == std::end(kFloats)) given.refuse("dtype", "a dtype of real floats", "torch.float32");
  return ObjectValue{std::make_shared<FloatInfo>(*row)};
}

}  // namespace

BuiltinTable inquiry_builtins() {
  static const Builtin kTable[] = {
      {"finfo", "(dtype=)", run_finfo},
      {"getattr", "(object, name, default=)", run_getattr},
      {"hasattr", "(object, name)", run_hasattr},
      {"set", "(items=)", run_set},
      {"type", "(object)", run_type},
      {"device", "(type, index=)", run_device},
  };
  return kTable;
}

BuiltinTable checkpoint_builtins() {
  static const Builtin kTable[] = {{"checkpoint", run_checkpoint}};
  return kTable;
}

BuiltinTable functools_builtins() {
  static const Builtin kTable[] = {{"partial", run_partial},
                                   {"reduce", "(function, items, initial=)", run_reduce}};
  return kTable;
}

}  // namespace shardlab
