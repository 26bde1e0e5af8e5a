// Functions of one element, or of several at one place, by their definitions.
#include <doctest/doctest.h>

#include <cmath>

#include "sim/world/spmd.h"
#include "tests/unit/models/definition.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

// A function of one element between two bounds, and the arguments after it.
struct OfOne {
  const char* op;
  double from, to;
  Dual (*f)(const Dual& x);
  Arguments more = {};
};

const std::vector<OfOne> kOfOne = {
    {"aten::reciprocal", 0.5, 3, [](const Dual& x) { return 1 / x; }},
    {"aten::square", -2, 2, [](const Dual& x) { return x * x; }},
    {"aten::expm1", -1, 1, [](const Dual& x) { return exp(x) - 1; }},
    {"aten::exp2", -2, 2, [](const Dual& x) { return exp(x * std::log(2.0)); }},
    {"aten::log1p", -0.5, 2, [](const Dual& x) { return log(1 + x); }},
    {"aten::log2", 0.2, 5, [](const Dual& x) { return log(x) / std::log(2.0); }},
    {"aten::log10", 0.2, 5, [](const Dual& x) { return log(x) / std::log(10.0); }},
    {"aten::sinh", -2, 2, [](const Dual& x) { return (exp(x) - exp(-x)) / 2; }},
    {"aten::cosh", -2, 2, [](const Dual& x) { return (exp(x) + exp(-x)) / 2; }},
    {"aten::tan", -1, 1, [](const Dual& x) { return sin(x) / cos(x); }},
    {"aten::asinh", -2, 2, [](const Dual& x) { return log(x + sqrt(x * x + 1)); }},
    {"aten::acosh", 1.2, 4, [](const Dual& x) { return log(x + sqrt(x * x - 1)); }},
    {"aten::atanh", -0.9, 0.9, [](const Dual& x) { return log((1 + x) / (1 - x)) / 2; }},
    {"aten::asin", -0.9, 0.9, [](const Dual& x) { return atan(x / sqrt(1 - x * x)); }},
    {"aten::acos", -0.9, 0.9, [](const Dual& x) { return M_PI / 2 - atan(x / sqrt(1 - x * x)); }},
    {"aten::erf", -2, 2, [](const Dual& x) { return erf(x); }},
    {"aten::erfc", -2, 2, [](const Dual& x) { return 1 - erf(x); }},
    {"aten::sinc", 0.1, 2.2, [](const Dual& x) { return sin(M_PI * x) / (M_PI * x); }},
    {"aten::logit", 0.1, 0.9, [](const Dual& x) { return log(x / (1 - x)); }},
    {"aten::logit",
     0.01,
     0.99,
     [](const Dual& x) {
       const Dual inside = max(Dual(0.2), min(x, Dual(0.8)));
       return log(inside / (1 - inside));
     },
     {0.2}},
    {"aten::deg2rad", -200, 200, [](const Dual& x) { return x * (M_PI / 180); }},
    {"aten::frac", 0.1, 3.9, [](const Dual& x) { return x - std::floor(x.value); }},
    {"aten::fmod.Scalar",
     -5,
     5,
     [](const Dual& x) { return x - 1.5 * std::trunc(x.value / 1.5); },
     {1.5}},
    {"aten::remainder.Scalar",
     -5,
     5,
     [](const Dual& x) { return x - 1.5 * std::floor(x.value / 1.5); },
     {1.5}},
    {"aten::clamp",
     -2,
     2,
     [](const Dual& x) { return max(Dual(-0.5), min(x, Dual(1))); },
     {-0.5, 1}},
    {"aten::pow.Tensor_Scalar", 0.3, 3, [](const Dual& x) { return pow(x, 2.5); }, {2.5}},
    {"aten::pow.Tensor_Scalar", 0.3, 3, [](const Dual& x) { return 1 / (x * x * x); }, {-3}},
    {"aten::silu", -3, 3, [](const Dual& x) { return x * sigmoid(x); }},
    {"aten::mish", -3, 3, [](const Dual& x) { return x * tanh(softplus(x)); }},
    {"aten::log_sigmoid", -3, 3, [](const Dual& x) { return -softplus(-x); }},
    {"aten::gelu", -3, 3, [](const Dual& x) { return x * (1 + erf(x / std::sqrt(2.0))) / 2; }},
    {"aten::gelu",
     -3,
     3,
     [](const Dual& x) {
       return x * (1 + tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
     },
     {"tanh"}},
    {"aten::softplus",
     -3,
     3,
     [](const Dual& x) { return 2 * x.value > 1.5 ? x : softplus(2 * x) / 2; },
     {2, 1.5}},
    {"aten::elu",
     -3,
     3,
     [](const Dual& x) { return x.value > 0 ? 1.5 * x : 1.5 * 0.7 * (exp(0.4 * x) - 1); },
     {0.7, 1.5, 0.4}},
    {"aten::celu",
     -3,
     3,
     [](const Dual& x) { return x.value > 0 ? x : 0.6 * (exp(x / 0.6) - 1); },
     {0.6}},
    {"aten::selu", -3, 3,
     [](const Dual& x) {
       constexpr double kScale = 1.0507009873554805, kAlpha = 1.6732632423543772;
       return kScale * (x.value > 0 ? x : kAlpha * (exp(x) - 1));
     }},
    {"aten::hardtanh",
     -2,
     2,
     [](const Dual& x) { return max(Dual(-0.7), min(x, Dual(0.9))); },
     {-0.7, 0.9}},
    {"aten::hardsigmoid", -5, 5,
     [](const Dual& x) {
       const Dual value = max(Dual(0), min(x + 3, Dual(6))) / 6;
       constexpr double kSixth = 1.0F / 6.0F;  // PyTorch's slope in every dtype
       return chained(x, value.value, value.value > 0 && value.value < 1 ? kSixth : 0);
     }},
    {"aten::hardswish", -5, 5,
     [](const Dual& x) { return x * max(Dual(0), min(x + 3, Dual(6))) / 6; }},
    {"aten::softshrink",
     -2,
     2,
     [](const Dual& x) {
       if (std::abs(x.value) <= 0.6) return Dual(0);
       return x.value > 0 ? x - 0.6 : x + 0.6;
     },
     {0.6}},
    {"aten::hardshrink",
     -2,
     2,
     [](const Dual& x) { return std::abs(x.value) > 0.6 ? x : Dual(0); },
     {0.6}},
    {"aten::threshold",
     -2,
     2,
     [](const Dual& x) { return x.value > 0.2 ? x : Dual(-4); },
     {0.2, -4}},
    {"aten::leaky_relu", -2, 2, [](const Dual& x) { return x.value > 0 ? x : 0.3 * x; }, {0.3}},
    {"aten::relu6", -3, 9, [](const Dual& x) { return max(Dual(0), min(x, Dual(6))); }},
    {"aten::abs", -2, 2, [](const Dual& x) { return abs(x); }},
    {"aten::sgn", -2, 2, [](const Dual& x) { return Dual(x.value > 0 ? 1 : -1) + 0 * x; }},
    {"aten::nan_to_num", -2, 2, [](const Dual& x) { return x; }, {1, 2, 3}},
    {"aten::lgamma", 3.1, 4.9,
     [](const Dual& x) {
       // Gamma(x) = Gamma(x + 40) / (x (x + 1) ..), and Stirling's series out there.
       const Dual far = x + 40;
       Dual value = (far - 0.5) * log(far) - far + std::log(2 * M_PI) / 2 + 1 / (12 * far) -
                    1 / (360 * far * far * far);
       for (int i = 0; i < 40; ++i) value = value - log(x + i);
       return value;
     }},
};

std::vector<Definition> of_one() {
  std::vector<Definition> definitions;
  for (const OfOne& row : kOfOne) {
    definitions.push_back({row.op,
                           {floats({5, 3}, 1, row.from, row.to)},
                           [&row](const Tensors& x) {
                             Arguments args{x[0]};
                             for (const Argument& more : row.more) args.push_back(more);
                             return first_of(row.op, args);
                           },
                           [&row](const Arrays& x) { return mapped(x[0], row.f); }});
  }
  return definitions;
}

// A function of two elements; the second operand is a row that is repeated.
struct OfTwo {
  const char* op;
  double from, to;
  Dual (*f)(const Dual& x, const Dual& y);
  Arguments more = {};
};

const std::vector<OfTwo> kOfTwo = {
    {"aten::div.Tensor", 0.5, 2, [](const Dual& x, const Dual& y) { return x / y; }},
    {"aten::sub.Tensor", -1, 1, [](const Dual& x, const Dual& y) { return x - 3 * y; }, {3}},
    {"aten::rsub.Tensor", -1, 1, [](const Dual& x, const Dual& y) { return y - 3 * x; }, {3}},
    {"aten::pow.Tensor_Tensor", 0.3, 2,
     [](const Dual& x, const Dual& y) { return exp(y * log(x)); }},
    {"aten::atan2", 0.2, 2, [](const Dual& x, const Dual& y) { return atan(x / y); }},
    {"aten::hypot", -2, 2, [](const Dual& x, const Dual& y) { return sqrt(x * x + y * y); }},
    {"aten::logaddexp", -3, 3, [](const Dual& x, const Dual& y) { return log(exp(x) + exp(y)); }},
    {"aten::logaddexp2", -3, 3,
     [](const Dual& x, const Dual& y) {
       const double base = std::log(2.0);
       return log(exp(base * x) + exp(base * y)) / base;
     }},
    {"aten::xlogy.Tensor", 0.2, 2, [](const Dual& x, const Dual& y) { return x * log(y); }},
    {"aten::special_xlog1py", 0.2, 2, [](const Dual& x, const Dual& y) { return x * log(1 + y); }},
    {"aten::maximum", -1, 1, [](const Dual& x, const Dual& y) { return max(x, y); }},
    {"aten::minimum", -1, 1, [](const Dual& x, const Dual& y) { return min(x, y); }},
    {"aten::fmax", -1, 1, [](const Dual& x, const Dual& y) { return max(x, y); }},
    {"aten::copysign.Tensor", -1, 1,
     [](const Dual& x, const Dual& y) { return (y.value < 0 ? -1 : 1) * abs(x) + 0 * y; }},
    {"aten::fmod.Tensor", 0.5, 4,
     [](const Dual& x, const Dual& y) { return x - std::trunc(x.value / y.value) * y; }},
    {"aten::lerp.Scalar",
     -1,
     1,
     [](const Dual& x, const Dual& y) { return x + 0.3 * (y - x); },
     {0.3}},
};

std::vector<Definition> of_two() {
  std::vector<Definition> definitions;
  for (const OfTwo& row : kOfTwo) {
    definitions.push_back({row.op,
                           {floats({4, 5}, 2, row.from, row.to), floats({5}, 3, row.from, row.to)},
                           [&row](const Tensors& x) {
                             Arguments args{x[0], x[1]};
                             for (const Argument& more : row.more) args.push_back(more);
                             return first_of(row.op, args);
                           },
                           [&row](const Arrays& x) {
                             return made({4, 5}, [&](const Dims& at) {
                               return row.f(x[0](at[0], at[1]), x[1](at[1]));
                             });
                           }});
  }
  return definitions;
}

// Operands that broadcast against each other on both sides.
std::vector<Definition> of_more() {
  const Given column = floats({4, 1}, 4, 0.5, 2), row = floats({1, 3}, 5, 0.5, 2),
              full = floats({4, 3}, 6);
  const auto with = [](Dual (*f)(const Dual& c, const Dual& r, const Dual& a)) {
    return [f](const Arrays& x) {
      return made({4, 3}, [&](const Dims& at) {
        return f(x[1](at[0], 0), x[2](0, at[1]), x[0](at[0], at[1]));
      });
    };
  };
  return {
      {"aten::addcmul",
       {full, column, row},
       [](const Tensors& x) {
         return first_of("aten::addcmul", {x[0], x[1], x[2], 1.7});
       },
       with([](const Dual& c, const Dual& r, const Dual& a) { return a + 1.7 * c * r; })},
      {"aten::addcdiv",
       {full, column, row},
       [](const Tensors& x) {
         return first_of("aten::addcdiv", {x[0], x[1], x[2], -0.4});
       },
       with([](const Dual& c, const Dual& r, const Dual& a) { return a - 0.4 * c / r; })},
      {"aten::lerp.Tensor",
       {full, column, row},
       nullptr,
       with([](const Dual& c, const Dual& r, const Dual& a) { return a + r * (c - a); })},
      {"aten::clamp.Tensor",
       {full, column, row},
       nullptr,
       with([](const Dual& c, const Dual& r, const Dual& a) { return min(max(a, c), r); })},
      {"aten::where.self",
       {full, column, row},
       [](const Tensors& x) {
         return first_of("aten::where.self", {gt(x[0], 0.1), x[1], x[2]}) + x[0] * 0.0;
       },
       with([](const Dual& c, const Dual& r, const Dual& a) {
         return (a.value > 0.1 ? c : r) + 0 * a;
       })},
      {"aten::prelu",
       {floats({4, 3}, 7), floats({3}, 8)},
       nullptr,
       [](const Arrays& x) {
         return made({4, 3}, [&](const Dims& at) {
           const Dual& a = x[0](at[0], at[1]);
           return a.value > 0 ? a : x[1](at[1]) * a;
         });
       }},
      {"aten::glu",
       {floats({3, 4, 2}, 9)},
       [](const Tensors& x) {
         return first_of("aten::glu", {x[0], -2});
       },
       [](const Arrays& x) {
         return made({3, 2, 2}, [&](const Dims& at) {
           return x[0](at[0], at[1], at[2]) * sigmoid(x[0](at[0], at[1] + 2, at[2]));
         });
       }},
  };
}

}  // namespace

TEST_CASE("V-15 functions of one element are their definitions, wherever elements lie") {
  check_definitions(of_one());
}

TEST_CASE("V-15 functions of two elements are their definitions, one of them repeated") {
  check_definitions(of_two());
}

TEST_CASE("V-15 columns, rows and matrices broadcast in value and in gradient") {
  check_definitions(of_more());
}
