// Functions that compute several elements in a step, beside the standard library in long double:
// densely where they bend, over all magnitudes that a number can have, and at their ends.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

using Exact = long double;

struct Dense {
  const char* name;
  KernelId kernel;
  Exact (*f)(Exact);
  double from, to;  // where it is tried densely
  double digits;    // how many last ones it may be off
  // Beside what the error is told: a sum of terms that cancel keeps the digits of its terms.
  Exact (*size)(Exact) = nullptr;
};

Exact gelu(Exact x) { return x * std::erfc(-x * std::sqrt(Exact(0.5))) / 2; }
Exact magnitude(Exact x) { return std::abs(x); }

const Dense kDenseFunctions[] = {
    {"exp", KernelId::kExp, [](Exact x) { return std::exp(x); }, -80, 80, 4},
    {"log", KernelId::kLog, [](Exact x) { return std::log(x); }, 1e-6, 50, 4},
    {"log1p", KernelId::kLog1p, [](Exact x) { return std::log1p(x); }, -0.999, 3, 8},
    {"log1p", KernelId::kLog1p, [](Exact x) { return std::log1p(x); }, -1e-3, 1e-3, 8},
    {"erf", KernelId::kErf, [](Exact x) { return std::erf(x); }, -5, 5, 8},
    {"erf", KernelId::kErf, [](Exact x) { return std::erf(x); }, -1e-4, 1e-4, 8},
    {"tanh", KernelId::kTanh, [](Exact x) { return std::tanh(x); }, -10, 10, 8},
    {"tanh", KernelId::kTanh, [](Exact x) { return std::tanh(x); }, -0.7, 0.7, 8},
    {"sin", KernelId::kSin, [](Exact x) { return std::sin(x); }, -30, 30, 4},
    {"sin", KernelId::kSin, [](Exact x) { return std::sin(x); }, -7e4, 7e4, 4},
    {"cos", KernelId::kCos, [](Exact x) { return std::cos(x); }, -30, 30, 4},
    {"cos", KernelId::kCos, [](Exact x) { return std::cos(x); }, -2e6, 2e6, 4},
    {"tan", KernelId::kTan, [](Exact x) { return std::tan(x); }, -30, 30, 8},
    {"tan", KernelId::kTan, [](Exact x) { return std::tan(x); }, -1e6, 1e6, 8},
    {"sigmoid", KernelId::kSigmoid, [](Exact x) { return 1 / (1 + std::exp(-x)); }, -60, 60, 8},
    {"silu", KernelId::kSilu, [](Exact x) { return x / (1 + std::exp(-x)); }, -60, 60, 8},
    {"gelu", KernelId::kGelu, gelu, -6, 6, 8, magnitude},
};

// Densely and evenly, then by magnitude: the least subnormal number to the largest, both signs.
template <typename T>
std::vector<T> places(const Dense& row) {
  constexpr int kCount = 2003;  // whole packets and a rest
  std::vector<T> x;
  for (int i = 0; i < kCount; ++i) {
    x.push_back(static_cast<T>(row.from + (row.to - row.from) * double(i) / (kCount - 1)));
  }
  using Limits = std::numeric_limits<T>;
  for (int exponent = Limits::min_exponent - Limits::digits; exponent < Limits::max_exponent;
       ++exponent) {
    for (const double fraction : {0.5, 0.6180339887, 0.75, 0.7853981634, 0.9999999}) {
      x.push_back(static_cast<T>(std::ldexp(fraction, exponent)));
      x.push_back(-x.back());
    }
  }
  return x;
}

template <typename T>
std::vector<T> computed(KernelId kernel, const std::vector<std::vector<T>>& operands) {
  constexpr DType kDType = sizeof(T) == 4 ? DType::kF32 : DType::kF64;
  Kernels kernels;
  const Dims shape{static_cast<std::int64_t>(operands[0].size())};
  std::vector<LocalArg> args;
  for (const auto& values : operands) args.emplace_back(kernels.tensor(shape, kDType, values));
  return values_of<T>(kernels.run(kernel, args, shape, kDType));
}

// Results that a T cannot hold are infinite; subnormal ones may be 0.
template <typename T>
bool is_close_to(T got, Exact wanted, Exact size, double digits) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(wanted)) return std::isnan(got);
  if (wanted == 0) return got == 0 && std::signbit(got) == std::signbit(wanted);
  if (std::isinf(static_cast<T>(wanted))) return got == static_cast<T>(wanted);
  return std::abs(Exact(got) - wanted) <= digits * Exact(Limits::epsilon()) * size + Limits::min();
}

template <typename T>
void check_row(const Dense& row) {
  const std::vector<T> x = places<T>(row), got = computed<T>(row.kernel, {x});
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Exact wanted = row.f(Exact(x[i]));
    const Exact size = row.size != nullptr ? row.size(Exact(x[i])) : std::abs(wanted);
    CAPTURE(row.name);
    CAPTURE(sizeof(T));
    CAPTURE(double(x[i]));
    CAPTURE(double(got[i]));
    CAPTURE(double(wanted));
    CHECK(is_close_to(got[i], wanted, size, row.digits));
  }
}

}  // namespace

TEST_CASE("V-27 functions that compute several elements in a step keep within a few last digits") {
  for (const Dense& row : kDenseFunctions) {
    check_row<float>(row);
    check_row<double>(row);
  }
}

TEST_CASE(
    "an infinite or undefined number, and zeros of both signs, have the results they should") {
  struct End {
    KernelId kernel;
    double x, y;
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const End ends[] = {
      {KernelId::kLog, 0.0, -kInf},     {KernelId::kLog, -0.0, -kInf},
      {KernelId::kLog, -1, kNan},       {KernelId::kLog, kInf, kInf},
      {KernelId::kLog, -kInf, kNan},    {KernelId::kLog, kNan, kNan},
      {KernelId::kLog, 1, 0.0},         {KernelId::kLog1p, -1, -kInf},
      {KernelId::kLog1p, -2, kNan},     {KernelId::kLog1p, 0.0, 0.0},
      {KernelId::kLog1p, -0.0, -0.0},   {KernelId::kLog1p, kInf, kInf},
      {KernelId::kLog1p, -kInf, kNan},  {KernelId::kLog1p, kNan, kNan},
      {KernelId::kErf, kInf, 1},        {KernelId::kErf, -kInf, -1},
      {KernelId::kErf, kNan, kNan},     {KernelId::kErf, -0.0, -0.0},
      {KernelId::kTanh, kInf, 1},       {KernelId::kTanh, -kInf, -1},
      {KernelId::kTanh, kNan, kNan},    {KernelId::kTanh, -0.0, -0.0},
      {KernelId::kSin, -0.0, -0.0},     {KernelId::kSin, kInf, kNan},
      {KernelId::kSin, -kInf, kNan},    {KernelId::kSin, kNan, kNan},
      {KernelId::kCos, -0.0, 1},        {KernelId::kCos, kInf, kNan},
      {KernelId::kCos, kNan, kNan},     {KernelId::kTan, -0.0, -0.0},
      {KernelId::kTan, -kInf, kNan},    {KernelId::kTan, kNan, kNan},
      {KernelId::kSigmoid, -kInf, 0.0}, {KernelId::kSigmoid, kInf, 1},
      {KernelId::kGelu, kInf, kInf},    {KernelId::kGelu, kNan, kNan},
  };
  const auto same = [](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  };
  for (const End& end : ends) {
    CAPTURE(static_cast<int>(end.kernel));
    CAPTURE(end.x);
    CHECK(same(double(computed<float>(end.kernel, {{float(end.x)}})[0]), end.y));
    CHECK(same(computed<double>(end.kernel, {{end.x}})[0], end.y));
  }
}

TEST_CASE("V-27 a power of two floats is the standard library's in double, rounded once") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> sizes{0.0f, 1e-45f, 1e-38f, 1e-3f, 0.5f,       1.0f,    1.5f,  2.0f,
                           3.0f, 4.0f,   10.0f,  25.0f, 16777217.f, 1.5e30f, 3e38f, kInf};
  for (float x = 0.71f; x < 1.42f; x += 0.0079f) sizes.push_back(x);
  std::vector<float> numbers{std::numeric_limits<float>::quiet_NaN()};
  for (const float size : sizes) {
    numbers.push_back(size);
    numbers.push_back(-size);
  }
  std::vector<float> bases, exponents;
  for (const float base : numbers) {
    for (const float exponent : numbers) {
      bases.push_back(base);
      exponents.push_back(exponent);
    }
  }
  const auto got = computed<float>(KernelId::kPow, {bases, exponents});
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double wanted = std::pow(double(bases[i]), double(exponents[i]));
    CAPTURE(bases[i]);
    CAPTURE(exponents[i]);
    CAPTURE(got[i]);
    CAPTURE(wanted);
    const auto rounded = static_cast<float>(wanted);
    if (std::isnan(rounded)) {
      CHECK(std::isnan(got[i]));
    } else if (rounded == 0 || std::isinf(rounded)) {
      CHECK((got[i] == rounded && std::signbit(got[i]) == std::signbit(rounded)));
    } else {
      CHECK(std::abs(double(got[i]) - wanted) <= 0.5001 * 0x1p-23 * std::abs(wanted) + 0x1p-149);
    }
  }
}
