// Python's math, of numbers; a tensor of one element is read, as Python does. torch.cuda for a
// program that runs without a GPU.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/fixed_text.h"
#include "sim/language/run/dist_calls.h"
#include "sim/language/values/python_error.h"

namespace shardlab {

namespace {

double real_of(Interpreter& in, std::string_view function, Value value) {
  if (value.is_tensor()) value = in.call(in.attribute(value, "item"), {});
  if (value.is_number()) return to_double(number_of(value));
  fail(Fix{"pass a number, or a tensor of 1 element"}, "math.{}: the argument is {}, not a number",
       function, a_kind(value));
}

std::vector<double> reals_of(Interpreter& in, std::string_view function, const CallValues& call,
                             std::size_t count) {
  if (call.positional.size() != count || !call.keywords.empty()) {
    fail(Fix{fmt::format("give {} without names", count)},
         "math.{}: the number of arguments is not {}", function, count);
  }
  std::vector<double> reals;
  for (const Value& value : call.positional) reals.push_back(real_of(in, function, value));
  return reals;
}

// Python raises an error for a mathematical result that is no finite number.
double checked(std::string_view function, double x, double result) {
  if (std::isfinite(result) || !std::isfinite(x)) return result;
  fail_as(std::isnan(result) || function.starts_with("log") ? "ValueError: math domain error"
                                                            : "OverflowError: math range error",
          Fix{"look at the argument first"}, "math.{}: the result for {} is no finite number",
          function, x);
}

template <FixedText kName, double (*kFunction)(double)>
Value run_unary(Interpreter& in, const Value*, CallValues call) {
  const double x = reals_of(in, kName, call, 1)[0];
  return checked(kName, x, kFunction(x));
}

template <FixedText kName, double (*kFunction)(double, double)>
Value run_binary(Interpreter& in, const Value*, CallValues call) {
  const std::vector<double> x = reals_of(in, kName, call, 2);
  return checked(kName, std::isfinite(x[0]) ? x[1] : x[0], kFunction(x[0], x[1]));
}

template <FixedText kName, bool (*kFunction)(double)>
Value run_test(Interpreter& in, const Value*, CallValues call) {
  return kFunction(reals_of(in, kName, call, 1)[0]);
}

template <FixedText kName, double (*kFunction)(double)>
Value run_whole(Interpreter& in, const Value*, CallValues call) {
  if (call.positional.size() == 1 && call.positional[0].is_integer()) return call.positional[0];
  const double x = reals_of(in, kName, call, 1)[0];
  return in.call(BuiltinValue{find_function("int"), nullptr}, {{kFunction(x)}, {}});
}

// math.log(x), math.log(x, base).
Value run_log(Interpreter& in, const Value* self, CallValues call) {
  if (call.positional.size() != 2) return run_unary<"log", std::log>(in, self, std::move(call));
  const std::vector<double> x = reals_of(in, "log", call, 2);
  return checked("log", x[0], std::log(x[0]) / std::log(x[1]));
}

Value run_prod(Interpreter& in, const Value*, const Parameters& given) {
  Value product = given.has("start") ? given["start"] : Value(1);
  for (const Value& item : in.iterate(given["items"])) {
    product = in.binary(ast::BinaryOp::kMul, product, item);
  }
  return product;
}

Value run_gcd(Interpreter&, const Value*, const Parameters& given) {
  return std::gcd(given.integer("a"), given.integer("b"));
}

Value run_isclose(Interpreter& in, const Value*, const Parameters& given) {
  const double a = real_of(in, "isclose", given["a"]), b = real_of(in, "isclose", given["b"]);
  const double relative = given.has("rel_tol") ? given.number("rel_tol") : 1e-9;
  const double absolute = given.has("abs_tol") ? given.number("abs_tol") : 0;
  if (a == b) return true;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  return std::fabs(a - b) <= std::max(relative * std::max(std::fabs(a), std::fabs(b)), absolute);
}

Value run_factorial(Interpreter& in, const Value*, const Parameters& given) {
  const std::int64_t n = given.integer("n");
  if (n < 0) given.refuse("n", "0 or more", "5");
  Value product = 1;
  for (std::int64_t i = 2; i <= std::min<std::int64_t>(n, 21); ++i) {
    product = in.binary(ast::BinaryOp::kMul, product, i);  // 21! does not fit into 64 bits
  }
  return product;
}

Value run_none(Interpreter&, const Value*, CallValues) { return {}; }
Value run_false(Interpreter&, const Value*, CallValues) { return false; }
Value run_zero(Interpreter&, const Value*, CallValues) { return 0; }

}  // namespace

BuiltinTable math_builtins() {
  static const Builtin kTable[] = {
      {"acos", run_unary<"acos", std::acos>},
      {"asin", run_unary<"asin", std::asin>},
      {"atan", run_unary<"atan", std::atan>},
      {"atan2", run_binary<"atan2", std::atan2>},
      {"ceil", run_whole<"ceil", std::ceil>},
      {"cos", run_unary<"cos", std::cos>},
      {"cosh", run_unary<"cosh", std::cosh>},
      {"erf", run_unary<"erf", std::erf>},
      {"exp", run_unary<"exp", std::exp>},
      {"expm1", run_unary<"expm1", std::expm1>},
      {"fabs", run_unary<"fabs", std::fabs>},
      {"factorial", "(n)", run_factorial},
      {"floor", run_whole<"floor", std::floor>},
      {"fmod", run_binary<"fmod", std::fmod>},
      {"gcd", "(a, b)", run_gcd},
      {"hypot", run_binary<"hypot", std::hypot>},
      {"copysign", run_binary<"copysign", std::copysign>},
      {"isclose", "(a, b, rel_tol=, abs_tol=)", run_isclose},
      {"isfinite", run_test<"isfinite", std::isfinite>},
      {"isinf", run_test<"isinf", std::isinf>},
      {"isnan", run_test<"isnan", std::isnan>},
      {"log", run_log},
      {"log10", run_unary<"log10", std::log10>},
      {"log1p", run_unary<"log1p", std::log1p>},
      {"log2", run_unary<"log2", std::log2>},
      {"pow", run_binary<"pow", std::pow>},
      {"prod", "(items, start=)", run_prod},
      {"sin", run_unary<"sin", std::sin>},
      {"sinh", run_unary<"sinh", std::sinh>},
      {"sqrt", run_unary<"sqrt", std::sqrt>},
      {"tan", run_unary<"tan", std::tan>},
      {"tanh", run_unary<"tanh", std::tanh>},
      {"trunc", run_whole<"trunc", std::trunc>},
  };
  return kTable;
}

BuiltinTable cuda_builtins() {
  static const Builtin kTable[] = {
      {"current_device", run_zero}, {"device_count", run_zero}, {"empty_cache", run_none},
      {"is_available", run_false},  {"set_device", run_none},   {"synchronize", run_synchronize},
  };
  return kTable;
}

}  // namespace shardlab
