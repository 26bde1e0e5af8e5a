// Functions that compute several elements in a step, compared with the standard library in long
// double: densely where they bend, over all magnitudes that a number can have, and at their ends.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/kernels/fixtures.h"
#include "tests/unit/ops/torch_rows.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

using Exact = long double;

struct Dense {
  const char* name;
  KernelId kernel;
  Exact (*f)(Exact);
  double from, to;  // tried densely in between
  double digits;    // allowed error in units of the last digit
  // The size that the error is relative to: a sum of terms that cancel keeps the digits of its
  // terms.
  Exact (*size)(Exact) = nullptr;
};

Exact gelu(Exact x) { return x * std::erfc(-x * std::sqrt(Exact(0.5))) / 2; }
Exact magnitude(Exact x) { return std::abs(x); }

const Dense kDenseFunctions[] = {
    {"exp", KernelId::kExp, [](Exact x) { return std::exp(x); }, -80, 80, 4},
    {"exp2", KernelId::kExp2, [](Exact x) { return std::exp2(x); }, -120, 120, 4},
    {"expm1", KernelId::kExpm1, [](Exact x) { return std::expm1(x); }, -45, 85, 4},
    {"expm1", KernelId::kExpm1, [](Exact x) { return std::expm1(x); }, -1, 1, 4},
    {"sinh", KernelId::kSinh, [](Exact x) { return std::sinh(x); }, -89, 89, 6},
    {"sinh", KernelId::kSinh, [](Exact x) { return std::sinh(x); }, -2, 2, 6},
    {"cosh", KernelId::kCosh, [](Exact x) { return std::cosh(x); }, -89, 89, 6},
    {"cosh", KernelId::kCosh, [](Exact x) { return std::cosh(x); }, -2, 2, 6},
    {"asinh", KernelId::kAsinh, [](Exact x) { return std::asinh(x); }, -40, 40, 8},
    {"asinh", KernelId::kAsinh, [](Exact x) { return std::asinh(x); }, -1, 1, 8},
    {"acosh", KernelId::kAcosh, [](Exact x) { return std::acosh(x); }, 1, 40, 8},
    {"acosh", KernelId::kAcosh, [](Exact x) { return std::acosh(x); }, 1, 1.01, 8},
    {"asin", KernelId::kAsin, [](Exact x) { return std::asin(x); }, -1, 1, 6},
    {"asin", KernelId::kAsin, [](Exact x) { return std::asin(x); }, 0.499, 0.501, 6},
    {"acos", KernelId::kAcos, [](Exact x) { return std::acos(x); }, -1, 1, 4},
    {"acos", KernelId::kAcos, [](Exact x) { return std::acos(x); }, 0.99, 1, 4},
    {"atan", KernelId::kAtan, [](Exact x) { return std::atan(x); }, -3, 3, 4},
    {"log2", KernelId::kLog2, [](Exact x) { return std::log2(x); }, 1e-6, 50, 4},
    {"log2", KernelId::kLog2, [](Exact x) { return std::log2(x); }, 0.9, 1.1, 4},
    {"log10", KernelId::kLog10, [](Exact x) { return std::log10(x); }, 1e-6, 50, 4},
    {"log10", KernelId::kLog10, [](Exact x) { return std::log10(x); }, 0.9, 1.1, 4},
    {"log", KernelId::kLog, [](Exact x) { return std::log(x); }, 1e-6, 50, 4},
    {"log1p", KernelId::kLog1p, [](Exact x) { return std::log1p(x); }, -0.999, 3, 8},
    {"log1p", KernelId::kLog1p, [](Exact x) { return std::log1p(x); }, -1e-3, 1e-3, 8},
    {"erf", KernelId::kErf, [](Exact x) { return std::erf(x); }, -5, 5, 8},
    {"erf", KernelId::kErf, [](Exact x) { return std::erf(x); }, -1e-4, 1e-4, 8},
    {"erfc", KernelId::kErfc, [](Exact x) { return std::erfc(x); }, -5, 9, 8},
    {"erfc", KernelId::kErfc, [](Exact x) { return std::erfc(x); }, 8, 27, 8},
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
    CAPTURE(std::string(row.name));
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

namespace {

struct End {
  KernelId kernel;
  double x, y;
};
constexpr double kInf = std::numeric_limits<double>::infinity();
const End kEnds[] = {
    {KernelId::kLog, 0.0, -kInf},     {KernelId::kLog, -0.0, -kInf},
    {KernelId::kLog, -1, kNan},       {KernelId::kLog, kInf, kInf},
    {KernelId::kLog, -kInf, kNan},    {KernelId::kLog, kNan, kNan},
    {KernelId::kLog, 1, 0.0},         {KernelId::kLog1p, -1, -kInf},
    {KernelId::kLog1p, -2, kNan},     {KernelId::kLog1p, 0.0, 0.0},
    {KernelId::kLog1p, -0.0, -0.0},   {KernelId::kLog1p, kInf, kInf},
    {KernelId::kLog1p, -kInf, kNan},  {KernelId::kLog1p, kNan, kNan},
    {KernelId::kErf, kInf, 1},        {KernelId::kErf, -kInf, -1},
    {KernelId::kErf, kNan, kNan},     {KernelId::kErf, -0.0, -0.0},
    {KernelId::kErfc, -kInf, 2},      {KernelId::kErfc, kInf, 0.0},
    {KernelId::kErfc, kNan, kNan},    {KernelId::kErfc, 0.0, 1},
    {KernelId::kExp2, kInf, kInf},    {KernelId::kExp2, -kInf, 0.0},
    {KernelId::kExp2, kNan, kNan},    {KernelId::kExp2, 10, 1024},
    {KernelId::kExp2, -3, 0.125},     {KernelId::kExpm1, kInf, kInf},
    {KernelId::kExpm1, -kInf, -1},    {KernelId::kExpm1, kNan, kNan},
    {KernelId::kExpm1, -0.0, -0.0},   {KernelId::kLog2, 1024, 10},
    {KernelId::kLog2, 0.125, -3},     {KernelId::kLog2, 0.0, -kInf},
    {KernelId::kLog2, -1, kNan},      {KernelId::kLog2, kInf, kInf},
    {KernelId::kLog10, 1000, 3},      {KernelId::kLog10, 10, 1},
    {KernelId::kLog10, -0.0, -kInf},  {KernelId::kLog10, kNan, kNan},
    {KernelId::kSinh, kInf, kInf},    {KernelId::kSinh, -kInf, -kInf},
    {KernelId::kSinh, kNan, kNan},    {KernelId::kSinh, -0.0, -0.0},
    {KernelId::kCosh, -kInf, kInf},   {KernelId::kCosh, kNan, kNan},
    {KernelId::kCosh, 0.0, 1},        {KernelId::kAsinh, kInf, kInf},
    {KernelId::kAsinh, -kInf, -kInf}, {KernelId::kAsinh, kNan, kNan},
    {KernelId::kAsinh, -0.0, -0.0},   {KernelId::kAcosh, 1, 0.0},
    {KernelId::kAcosh, 0.5, kNan},    {KernelId::kAcosh, kInf, kInf},
    {KernelId::kAcosh, -kInf, kNan},  {KernelId::kAcosh, kNan, kNan},
    {KernelId::kAsin, 1.5, kNan},     {KernelId::kAsin, kInf, kNan},
    {KernelId::kAsin, kNan, kNan},    {KernelId::kAsin, -0.0, -0.0},
    {KernelId::kAcos, 1, 0.0},        {KernelId::kAcos, -1.5, kNan},
    {KernelId::kAcos, kNan, kNan},    {KernelId::kAtan, -0.0, -0.0},
    {KernelId::kAtan, kNan, kNan},    {KernelId::kTanh, kInf, 1},
    {KernelId::kTanh, -kInf, -1},     {KernelId::kTanh, kNan, kNan},
    {KernelId::kTanh, -0.0, -0.0},    {KernelId::kSin, -0.0, -0.0},
    {KernelId::kSin, kInf, kNan},     {KernelId::kSin, -kInf, kNan},
    {KernelId::kSin, kNan, kNan},     {KernelId::kCos, -0.0, 1},
    {KernelId::kCos, kInf, kNan},     {KernelId::kCos, kNan, kNan},
    {KernelId::kTan, -0.0, -0.0},     {KernelId::kTan, -kInf, kNan},
    {KernelId::kTan, kNan, kNan},     {KernelId::kSigmoid, -kInf, 0.0},
    {KernelId::kSigmoid, kInf, 1},    {KernelId::kGelu, kInf, kInf},
    {KernelId::kGelu, kNan, kNan},
};

}  // namespace

TEST_CASE(
    "an infinite or undefined number, and zeros of both signs, have the results they should") {
  const auto same = [](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  };
  for (const End& end : kEnds) {
    CAPTURE(static_cast<int>(end.kernel));
    CAPTURE(end.x);
    CHECK(same(double(computed<float>(end.kernel, {{float(end.x)}})[0]), end.y));
    CHECK(same(computed<double>(end.kernel, {{end.x}})[0], end.y));
  }
}

namespace {

// Every pair of these: zeros, the least, the largest, infinite and undefined numbers, of both
// signs.
template <typename T>
std::vector<std::vector<T>> pairs_of_numbers() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> sizes{T(0),
                       Limits::denorm_min(),
                       Limits::min(),
                       T(1e-3),
                       T(0.3),
                       T(0.5),
                       T(1),
                       T(1.5),
                       T(2),
                       T(3),
                       T(7.25),
                       T(1e6),
                       T(1e12),
                       Limits::max(),
                       Limits::infinity(),
                       Limits::quiet_NaN()};
  for (T size = T(0.01); size < 100; size *= T(1.37)) sizes.push_back(size);
  std::vector<std::vector<T>> pairs(2);
  for (const T a : sizes) {
    for (const T b : sizes) {
      for (const int signs : {0, 1, 2, 3}) {
        pairs[0].push_back((signs & 1) != 0 ? -a : a);
        pairs[1].push_back((signs & 2) != 0 ? -b : b);
      }
    }
  }
  return pairs;
}

template <typename T>
void check_pairs(KernelId kernel, T (*wanted)(T, T), double digits) {
  const auto pairs = pairs_of_numbers<T>();
  const std::vector<T> got = computed<T>(kernel, pairs);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const T right = wanted(pairs[0][i], pairs[1][i]);
    CAPTURE(static_cast<int>(kernel));
    CAPTURE(double(pairs[0][i]));
    CAPTURE(double(pairs[1][i]));
    CAPTURE(double(got[i]));
    CAPTURE(double(right));
    if (digits > 0) {
      CHECK(is_close_to(got[i], Exact(right), Exact(std::abs(right)), digits));
    } else {
      CHECK(((std::isnan(right) && std::isnan(got[i])) ||
             (got[i] == right && std::signbit(got[i]) == std::signbit(right))));
    }
  }
}

template <typename T>
T floored_remainder(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

template <typename T>
void check_functions_of_two() {
  check_pairs<T>(
      KernelId::kAtan2, [](T y, T x) { return std::atan2(y, x); }, 4);
  check_pairs<T>(
      KernelId::kFmod, [](T a, T b) { return std::fmod(a, b); }, 0);
  check_pairs<T>(KernelId::kRemainder, floored_remainder<T>, 0);
}

}  // namespace

TEST_CASE("V-27 atan2 of all pairs of numbers, and what their division leaves, which is exact") {
  check_functions_of_two<float>();
  check_functions_of_two<double>();
}

namespace {

// The error of a result in last digits of a T.
template <typename T>
Exact digits_off(T got, Exact wanted) {
  using Limits = std::numeric_limits<T>;
  const int exponent = std::max(std::ilogb(wanted), Limits::min_exponent - 1);
  return std::abs(Exact(got) - wanted) / std::ldexp(Exact(1), exponent + 1 - Limits::digits);
}

template <typename T>
void check_powers(const std::vector<T>& bases, const std::vector<T>& exponents) {
  const auto got = computed<T>(KernelId::kPow, {bases, exponents});
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Exact wanted = std::pow(Exact(bases[i]), Exact(exponents[i]));
    CAPTURE(double(bases[i]));
    CAPTURE(double(exponents[i]));
    CAPTURE(double(got[i]));
    CAPTURE(double(wanted));
    const auto rounded = static_cast<T>(wanted);
    if (std::isnan(rounded)) {
      CHECK(std::isnan(got[i]));
    } else if (rounded == 0 || std::isinf(rounded)) {
      CHECK((got[i] == rounded && std::signbit(got[i]) == std::signbit(rounded)));
    } else if (Exact(rounded) == wanted) {
      CHECK(got[i] == rounded);
    } else {
      const bool near = std::abs(std::log(std::abs(wanted))) < 8;
      CHECK(digits_off(got[i], wanted) <= (near ? 0.6 : sizeof(T) == sizeof(float) ? 1.2 : 2.0));
    }
  }
}

template <typename T>
void check_powers_of_grid() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> sizes{T(0),
                       Limits::denorm_min(),
                       Limits::min(),
                       T(1e-3),
                       T(0.5),
                       T(1),
                       T(1.5),
                       T(2),
                       T(3),
                       T(4),
                       T(10),
                       T(25),
                       T(300.25),
                       T(2331.2),
                       T(16777217),
                       T(1.5e30),
                       Limits::max() / 2,
                       Limits::infinity()};
  for (double x = 0.71; x < 1.42; x += 0.0079) sizes.push_back(T(x));
  std::vector<T> numbers{Limits::quiet_NaN()};
  for (const T size : sizes) {
    numbers.push_back(size);
    numbers.push_back(-size);
  }
  std::vector<T> bases, exponents;
  for (const T base : numbers) {
    for (const T exponent : numbers) {
      bases.push_back(base);
      exponents.push_back(exponent);
    }
  }
  check_powers(bases, exponents);
}

// Whole and quarter numbers, then of all magnitudes and near 1, whose powers have few digits of the
// base's logarithm.
template <typename T>
void check_powers_at_random() {
  constexpr bool kSingle = sizeof(T) == sizeof(float);
  std::vector<T> bases, exponents;
  for (int base = -60; base <= 60; ++base) {
    for (int exponent = -6; exponent <= 12; ++exponent) {
      bases.push_back(T(base) / 4);
      exponents.push_back(T(exponent));
    }
  }
  std::uint64_t state = 7;
  const auto uniform = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return double(state >> 11) * 0x1p-53;
  };
  for (int i = 0; i < 40'000; ++i) {
    const bool near = i % 4 == 0;
    const double most = kSingle ? 160 : 1300;
    const double base = near ? 1 + (uniform() - 0.5) / 16 : std::exp(most * (uniform() - 0.5));
    bases.push_back(T(base));
    exponents.push_back(T((near ? (kSingle ? 3000 : 20'000) : 4) * (uniform() - 0.5)));
  }
  check_powers(bases, exponents);
}

}  // namespace

TEST_CASE("V-27 powers are off by 0.6 of a last digit, by 1.2 or 2 of very large or small ones") {
  check_powers_of_grid<float>();
  check_powers_of_grid<double>();
}

TEST_CASE("V-27 powers are exact where a number holds them, and close at random places") {
  check_powers_at_random<float>();
  check_powers_at_random<double>();
}

TEST_CASE("gelu of every bf16 is that of f32, rounded") {
  std::vector<BFloat16> elements;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    elements.push_back({static_cast<std::uint16_t>(bits)});
  }
  elements.resize(elements.size() + 3, {0x3F9A});  // a rest that fills no registers
  std::vector<float> x;
  for (const BFloat16 element : elements) x.push_back(to_float(element));
  Kernels kernels;
  const Dims shape{static_cast<std::int64_t>(x.size())};
  const Tensor single =
      kernels.run(KernelId::kGelu, {kernels.tensor(shape, DType::kF32, x)}, shape, DType::kF32);
  const Tensor bfloat = kernels.run(
      KernelId::kGelu, {kernels.tensor(shape, DType::kBF16, elements)}, shape, DType::kBF16);
  const auto wanted = values_of<float>(single);
  const auto got = values_of<BFloat16>(bfloat);
  int wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float value = to_float(got[i]);
    const bool same =
        std::isnan(wanted[i]) ? std::isnan(value) : got[i].bits == to_bfloat16(wanted[i]).bits;
    if (!same) ++wrong;
  }
  CHECK(wrong == 0);
}
