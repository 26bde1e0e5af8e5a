// The language's side of a call of an op: only values change their form here. The signatures decide
// the meaning of a call, in src/schema.
#include "sim/language/values/op_call.h"

#include "base/error.h"
#include "base/rank_context.h"
#include "schema/op_row.h"
#include "sim/language/values/generator.h"
#include "sim/language/values/tensor_data.h"

namespace shardlab {

namespace {

Scalar scalar_of(const Value& value) {
  if (const auto* flag = value.get<bool>()) return Scalar(*flag);
  if (const auto* integer = value.get<std::int64_t>()) return Scalar(*integer);
  return Scalar(value.as<double>());
}

std::optional<DType> python_dtype(const Value& value) {
  const auto* builtin = value.get<BuiltinValue>();
  if (builtin == nullptr || builtin->self) return std::nullopt;
  if (builtin->builtin->name == "bool") return DType::kBool;
  if (builtin->builtin->name == "int") return DType::kI64;
  if (builtin->builtin->name == "float") return DType::kF64;
  return std::nullopt;
}

std::optional<Argument> argument_of(const Value& value) {
  if (value.is_none()) return Argument();
  if (const auto* tensor = value.get<DTensor>()) return Argument(*tensor);
  if (value.is_number()) return Argument(scalar_of(value));
  if (const auto* dtype = value.get<DType>()) return Argument(*dtype);
  if (const auto* text = value.get<std::string>()) return Argument(*text);
  if (const auto dtype = python_dtype(value)) return Argument(*dtype);
  if (const GeneratorObject* generator = generator_of(value)) return Argument(generator->state());
  if (!value.is_sequence()) return std::nullopt;
  if (auto ints = dims_of(value)) return Argument(std::move(*ints));
  ArgumentList list;
  for (const Value& item : items_of(value)) {
    auto element = argument_of(item);
    if (!element) return std::nullopt;
    list.push_back(std::move(*element));
  }
  return Argument(std::move(list));
}

[[noreturn]] void refuse(std::string_view function, std::string_view name, const Value& value) {
  fail(Fix{"ops take tensors, numbers, strings, dtypes, generators, None and lists of these"},
       "{}: {} is the {} {}, which no op takes", function, name, kind_name(value), repr(value));
}

}  // namespace

GivenArguments arguments_of(std::string_view function, const CallValues& call) {
  GivenArguments given;
  for (const Value& value : call.positional) {
    auto argument = argument_of(value);
    if (!argument) {
      refuse(function, fmt::format("argument {}", given.positional.size() + 1), value);
    }
    given.positional.push_back(std::move(*argument));
  }
  for (const auto& [keyword, value] : call.keywords) {
    auto argument = argument_of(value);
    if (!argument) refuse(function, fmt::format("'{}'", keyword), value);
    given.keywords.emplace_back(keyword, std::move(*argument));
  }
  return given;
}

void wrap_numbers(const OpRow& row, Arguments& args) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!args[i].is_scalar() || !row.op.arguments[i].type.is_tensor()) continue;
    const Scalar scalar = args[i].scalar();
    const Number number =
        scalar.is_integral() ? Number(scalar.to_int()) : Number(scalar.to_double());
    const DType dtype = default_dtype(scalar.category());
    args[i] = Argument(DTensor(tensor_of(*current_rank().device, {}, dtype, {&number, 1})));
  }
}

Value value_of(const Argument& argument) {
  if (argument.is_none()) return {};
  if (argument.is_tensor()) return argument.tensor();
  if (argument.is_dtype()) return argument.dtype();
  if (argument.is_string()) return argument.string();
  if (argument.is_ints()) return make_tuple(argument.ints());
  if (argument.is_scalar()) {
    const Scalar& scalar = argument.scalar();
    if (scalar.category() == Category::kBool) return scalar.to_bool();
    if (scalar.category() == Category::kInteger) return scalar.to_int();
    if (scalar.category() == Category::kFloat) return scalar.to_double();
    fail(ErrorKind::kUnsupported, Fix{"use view_as_real(x), which has the two parts as floats"},
         "not yet supported: complex numbers in programs");
  }
  if (argument.is_list()) {
    Values items;
    for (const Argument& item : argument.list()) items.push_back(value_of(item));
    return make_tuple(std::move(items));
  }
  fail(ErrorKind::kInternal, "an op returned {}", argument.text());
}

Value value_of(const Results& results, const OpRow& row) {
  if (results.empty()) return {};
  if (results.size() == 1) return value_of(results[0]);
  Values items;
  for (const Argument& result : results) items.push_back(value_of(result));
  return make_tuple(std::move(items), &row);
}

}  // namespace shardlab
