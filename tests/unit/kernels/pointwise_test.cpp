// Pointwise kernels: functions of one number against the standard library in double, in every float
// dtype; the ends of integers; NaN, infinities and signed zeros, written out.
#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "base/error.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

using Doubles = std::vector<double>;
using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;
using Truth = std::vector<bool>;

/// Row-major doubles as a tensor of any float dtype: rounded by the scalar conversions.
Tensor real(Kernels& kernels, DType dtype, const Doubles& values) {
  const Dims shape{static_cast<std::int64_t>(values.size())};
  switch (dtype) {
    case DType::kF64:
      return kernels.tensor(shape, dtype, values);
    case DType::kF32:
      return kernels.tensor(shape, dtype, Floats(values.begin(), values.end()));
    default:
      break;
  }
  std::vector<std::uint16_t> bits;
  for (const double value : values) {
    bits.push_back(dtype == DType::kF16 ? to_half(float(value)).bits
                                        : to_bfloat16(float(value)).bits);
  }
  return kernels.tensor(shape, dtype, bits);
}

Doubles doubles(const Tensor& x) {
  Doubles result;
  switch (x.dtype()) {
    case DType::kF64:
      return values_of<double>(x);
    case DType::kF32:
      for (const float value : values_of<float>(x)) result.push_back(value);
      return result;
    default:
      for (const std::uint16_t bits : values_of<std::uint16_t>(x)) {
        result.push_back(x.dtype() == DType::kF16 ? to_float(Half{bits})
                                                  : to_float(BFloat16{bits}));
      }
      return result;
  }
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

Doubles f64(Kernels& kernels, KernelId kernel, const Doubles& x,
            const std::vector<LocalArg>& rest = {}) {
  std::vector<LocalArg> args{real(kernels, DType::kF64, x)};
  args.insert(args.end(), rest.begin(), rest.end());
  return doubles(kernels.run(kernel, args, Dims{std::int64_t(x.size())}, DType::kF64));
}

Integers i64(Kernels& kernels, KernelId kernel, const std::vector<LocalArg>& args,
             std::int64_t count) {
  return values_of<std::int64_t>(kernels.run(kernel, args, Dims{count}, DType::kI64));
}

void check_same(const Doubles& got, const Doubles& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CAPTURE(got[i]);
    CAPTURE(expected[i]);
    CHECK(same(got[i], expected[i]));
  }
}

struct Function {
  KernelId kernel;
  double (*reference)(double);
  Doubles at;
};

const Doubles kAnywhere = {-3, -1, -0.5, -0.125, 0.125, 0.5, 1, 2.5, 3};
const Doubles kPositive = {0.0625, 0.125, 0.5, 1, 1.5, 2.5, 10, 100};
const Doubles kWithin = {-0.9375, -0.5, -0.125, 0.125, 0.5, 0.9375};

const Function kFunctions[] = {
    {KernelId::kExp, [](double x) { return std::exp(x); }, kAnywhere},
    {KernelId::kExp2, [](double x) { return std::exp2(x); }, kAnywhere},
    {KernelId::kExpm1, [](double x) { return std::expm1(x); }, kAnywhere},
    {KernelId::kLog, [](double x) { return std::log(x); }, kPositive},
    {KernelId::kLog2, [](double x) { return std::log2(x); }, kPositive},
    {KernelId::kLog10, [](double x) { return std::log10(x); }, kPositive},
    {KernelId::kLog1p, [](double x) { return std::log1p(x); }, kPositive},
    {KernelId::kSqrt, [](double x) { return std::sqrt(x); }, kPositive},
    {KernelId::kRsqrt, [](double x) { return 1 / std::sqrt(x); }, kPositive},
    {KernelId::kReciprocal, [](double x) { return 1 / x; }, kAnywhere},
    {KernelId::kSin, [](double x) { return std::sin(x); }, kAnywhere},
    {KernelId::kCos, [](double x) { return std::cos(x); }, kAnywhere},
    {KernelId::kTan, [](double x) { return std::tan(x); }, kWithin},
    {KernelId::kAsin, [](double x) { return std::asin(x); }, kWithin},
    {KernelId::kAcos, [](double x) { return std::acos(x); }, kWithin},
    {KernelId::kAtan, [](double x) { return std::atan(x); }, kAnywhere},
    {KernelId::kAsinh, [](double x) { return std::asinh(x); }, kAnywhere},
    {KernelId::kSinh, [](double x) { return std::sinh(x); }, kAnywhere},
    {KernelId::kCosh, [](double x) { return std::cosh(x); }, kAnywhere},
    {KernelId::kTanh, [](double x) { return std::tanh(x); }, kAnywhere},
    {KernelId::kErf, [](double x) { return std::erf(x); }, kAnywhere},
    {KernelId::kErfc, [](double x) { return std::erfc(x); }, kAnywhere},
    {KernelId::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, kAnywhere},
    {KernelId::kSilu, [](double x) { return x / (1 + std::exp(-x)); }, kAnywhere},
    {KernelId::kGelu, [](double x) { return x * std::erfc(-x / std::sqrt(2.0)) / 2; }, kAnywhere},
    {KernelId::kSquare, [](double x) { return x * x; }, kAnywhere},
};

}  // namespace

TEST_CASE("elementary functions are those of the standard library, in every float dtype") {
  struct Width {
    DType dtype;
    double epsilon;
    double least;  // half of the least subnormal
  };
  const Width widths[] = {{DType::kF64, 1e-14, 1e-300},
                          {DType::kF32, 1e-6, 0x1p-150},
                          {DType::kF16, 0x1p-10, 0x1p-25},
                          {DType::kBF16, 0x1p-7, 0x1p-134}};
  Kernels kernels;
  for (const Function& function : kFunctions) {
    for (const Width& width : widths) {
      const auto count = static_cast<std::int64_t>(function.at.size());
      const Tensor x = real(kernels, width.dtype, function.at);
      const Doubles got = doubles(kernels.run(function.kernel, {x}, Dims{count}, width.dtype));
      for (std::size_t i = 0; i < got.size(); ++i) {
        CAPTURE(int(function.kernel));
        CAPTURE(to_string(width.dtype));
        CAPTURE(function.at[i]);
        const double expected = function.reference(doubles(x)[i]);
        // gelu's 1 + erf cancels below zero, as the reference's does.
        const double size =
            function.kernel == KernelId::kGelu ? std::abs(function.at[i]) : std::abs(expected);
        CHECK(std::abs(got[i] - expected) <= width.epsilon * size + width.least);
      }
    }
  }
}

TEST_CASE("elementary functions of integers and bools are f32") {
  Kernels kernels;
  const Tensor integers = kernels.i64({3}, {0, 1, 4});
  CHECK(values_of<float>(kernels.run(KernelId::kSqrt, {integers}, Dims{3})) == Floats{0, 1, 2});
  const Tensor truth = kernels.tensor<std::uint8_t>({2}, DType::kBool, {0, 1});
  const auto powers = values_of<float>(kernels.run(KernelId::kExp, {truth}, Dims{2}));
  CHECK(powers[0] == 1);
  CHECK(powers[1] == doctest::Approx(std::exp(1.0)));
}

TEST_CASE("functions at their limits: poles, domains, infinities") {
  Kernels kernels;
  check_same(f64(kernels, KernelId::kLog, {0, -1, kInfinity, kNan}),
             {-kInfinity, kNan, kInfinity, kNan});
  check_same(f64(kernels, KernelId::kSqrt, {-1, -0.0, kInfinity}), {kNan, -0.0, kInfinity});
  check_same(f64(kernels, KernelId::kRsqrt, {0, kInfinity, -1}), {kInfinity, 0, kNan});
  check_same(f64(kernels, KernelId::kReciprocal, {0, -0.0, -kInfinity}),
             {kInfinity, -kInfinity, -0.0});
  check_same(f64(kernels, KernelId::kExp, {-kInfinity, 1000, kNan}), {0, kInfinity, kNan});
  check_same(f64(kernels, KernelId::kSigmoid, {-kInfinity, kInfinity, 0}), {0, 1, 0.5});
  check_same(f64(kernels, KernelId::kTanh, {-kInfinity, kInfinity, -0.0}), {-1, 1, -0.0});
  check_same(f64(kernels, KernelId::kAcos, {2, 1}), {kNan, 0});
  check_same(f64(kernels, KernelId::kLog1p, {-1, -2, 0x1p-60}), {-kInfinity, kNan, 0x1p-60});
  check_same(f64(kernels, KernelId::kExpm1, {-kInfinity, 0x1p-60}), {-1, 0x1p-60});
}

TEST_CASE("rounding to whole numbers: ties to even, toward zero, down and up") {
  Kernels kernels;
  const Doubles x = {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.75, kInfinity, kNan};
  check_same(f64(kernels, KernelId::kRound, x), {-2, -2, -0.0, 0, 2, 2, 3, kInfinity, kNan});
  check_same(f64(kernels, KernelId::kTrunc, x), {-2, -1, -0.0, 0, 1, 2, 2, kInfinity, kNan});
  check_same(f64(kernels, KernelId::kFloor, x), {-3, -2, -1, 0, 1, 2, 2, kInfinity, kNan});
  check_same(f64(kernels, KernelId::kCeil, x), {-2, -1, -0.0, 1, 2, 3, 3, kInfinity, kNan});
  check_same(f64(kernels, KernelId::kFrac, {-2.75, 2.75, 3}), {-0.75, 0.75, 0});
  const Tensor integers = kernels.i64({2}, {kLeast, 7});
  for (const KernelId kernel : {KernelId::kRound, KernelId::kTrunc, KernelId::kFloor,
                                KernelId::kCeil, KernelId::kPositive}) {
    CHECK(i64(kernels, kernel, {integers}, 2) == Integers{kLeast, 7});
  }
}

TEST_CASE("signs and sizes, of the least integer, too, which has no opposite") {
  Kernels kernels;
  check_same(f64(kernels, KernelId::kAbs, {-1.5, -0.0, kNan, -kInfinity}),
             {1.5, 0, kNan, kInfinity});
  check_same(f64(kernels, KernelId::kNeg, {0, -2, kNan}), {-0.0, 2, kNan});
  check_same(f64(kernels, KernelId::kSign, {-3, -0.0, 5, kInfinity}), {-1, 0, 1, 1});
  const Tensor integers = kernels.i64({3}, {kLeast, -1, kMost});
  CHECK(i64(kernels, KernelId::kAbs, {integers}, 3) == Integers{kLeast, 1, kMost});
  CHECK(i64(kernels, KernelId::kNeg, {integers}, 3) == Integers{kLeast, 1, -kMost});
  CHECK(i64(kernels, KernelId::kSign, {integers}, 3) == Integers{-1, -1, 1});
  CHECK(i64(kernels, KernelId::kSquare, {kernels.i64({2}, {-3, std::int64_t{1} << 32})}, 2) ==
        Integers{9, 0});
  const Tensor bytes = kernels.tensor<std::int8_t>({2}, DType::kI8, {-128, 127});
  CHECK(values_of<std::int8_t>(kernels.run(KernelId::kNeg, {bytes}, Dims{2}, DType::kI8)) ==
        std::vector<std::int8_t>{-128, -127});
}

TEST_CASE("questions: is it NaN, infinite, finite or negative") {
  Kernels kernels;
  const Tensor x = real(kernels, DType::kF32, {kNan, kInfinity, -kInfinity, -0.0, 1});
  const auto told = [&](KernelId kernel, const Tensor& of) {
    return values_of<bool>(kernels.run(kernel, {of}, of.shape(), DType::kBool));
  };
  CHECK(told(KernelId::kIsNan, x) == Truth{true, false, false, false, false});
  CHECK(told(KernelId::kIsInf, x) == Truth{false, true, true, false, false});
  CHECK(told(KernelId::kIsFinite, x) == Truth{false, false, false, true, true});
  CHECK(told(KernelId::kLogicalNot, x) == Truth{false, false, false, true, false});
  CHECK(told(KernelId::kSignbit, real(kernels, DType::kF32, {-1, -0.0, 0, kInfinity})) ==
        Truth{true, true, false, false});
  const Tensor integers = kernels.i64({2}, {kLeast, 0});
  CHECK(told(KernelId::kIsFinite, integers) == Truth{true, true});
  CHECK(told(KernelId::kSignbit, integers) == Truth{true, false});
}

TEST_CASE("sums, differences and products of integers wrap; a scale counts twice over") {
  Kernels kernels;
  const Tensor a = kernels.i64({2}, {kMost, -5}), b = kernels.i64({2}, {1, 7});
  CHECK(i64(kernels, KernelId::kAdd, {a, b}, 2) == Integers{kLeast, 2});
  CHECK(i64(kernels, KernelId::kAdd, {a, b, Scalar(3)}, 2) == Integers{kLeast + 2, 16});
  CHECK(i64(kernels, KernelId::kSub, {a, b, Scalar(2)}, 2) == Integers{kMost - 2, -19});
  CHECK(i64(kernels, KernelId::kRsub, {a, b, Scalar(1)}, 2) == Integers{kLeast + 2, 12});
  CHECK(i64(kernels, KernelId::kMul, {a, kernels.i64({2}, {2, -3})}, 2) == Integers{-2, 15});
}

TEST_CASE("quotients of integers: floored, truncated, of the least one by -1") {
  Kernels kernels;
  const Tensor a = kernels.i64({5}, {7, -7, 7, -7, kLeast}),
               b = kernels.i64({5}, {2, 2, -2, -2, -1});
  CHECK(i64(kernels, KernelId::kDiv, {a, b, std::string("floor")}, 5) ==
        Integers{3, -4, -4, 3, kLeast});
  CHECK(i64(kernels, KernelId::kDiv, {a, b, std::string("trunc")}, 5) ==
        Integers{3, -3, -3, 3, kLeast});
  CHECK(i64(kernels, KernelId::kRemainder, {a, b}, 5) == Integers{1, 1, -1, -1, 0});
  CHECK(i64(kernels, KernelId::kFmod, {a, b}, 5) == Integers{1, -1, 1, -1, 0});
}

TEST_CASE("quotients of floats keep the sign of zero and follow Python's // and %") {
  Kernels kernels;
  const Doubles a = {7, -7, 7, -7, 1, -1, kInfinity, 0};
  const Tensor b = real(kernels, DType::kF64, {2, 2, -2, -2, 0, 0, 2, -3});
  check_same(f64(kernels, KernelId::kDiv, a, {b}),
             {3.5, -3.5, -3.5, 3.5, kInfinity, -kInfinity, kInfinity, -0.0});
  check_same(f64(kernels, KernelId::kDiv, a, {b, std::string("trunc")}),
             {3, -3, -3, 3, kInfinity, -kInfinity, kInfinity, -0.0});
  check_same(f64(kernels, KernelId::kDiv, a, {b, std::string("floor")}),
             {3, -4, -4, 3, kInfinity, -kInfinity, kNan, -0.0});
  check_same(f64(kernels, KernelId::kRemainder, {5.5, -5.5, 5.5, -5.5},
                 {real(kernels, DType::kF64, {2, 2, -2, -2})}),
             {1.5, 0.5, -0.5, -1.5});
  check_same(f64(kernels, KernelId::kFmod, {5.5, -5.5}, {Scalar(2.0)}), {1.5, -1.5});
}

TEST_CASE("a rounding mode or an approximation of another name is refused by name") {
  Kernels kernels;
  const Tensor x = kernels.f32({1}, {1});
  try {
    kernels.run(KernelId::kDiv, {x, x, std::string("ceil")}, Dims{1});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.summary() == "rounding_mode is 'ceil'; it must be None, 'trunc' or 'floor'");
  }
  try {
    kernels.run(KernelId::kGelu, {x, std::string("erf")}, Dims{1});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.summary() == "approximate is 'erf'; it must be 'none' or 'tanh'");
  }
}

TEST_CASE("powers of integers by squaring, negative ones of 1 and -1 only, and of floats") {
  Kernels kernels;
  const auto power = [&](std::int64_t base, std::int64_t exponent) {
    return i64(kernels, KernelId::kPow, {kernels.i64({1}, {base}), kernels.i64({1}, {exponent})},
               1)[0];
  };
  CHECK(power(3, 4) == 81);
  CHECK(power(-2, 63) == kLeast);
  CHECK(power(2, 64) == 0);
  CHECK(power(0, 0) == 1);
  CHECK(power(1, -5) == 1);
  CHECK(power(-1, -5) == -1);
  CHECK(power(-1, -4) == 1);
  CHECK(power(7, -1) == 0);
  check_same(f64(kernels, KernelId::kPow, {-8, -2, 0, kNan, kInfinity},
                 {real(kernels, DType::kF64, {1.0 / 3, 3, -1, 0, -1})}),
             {kNan, -8, kInfinity, 1, 0});
}

TEST_CASE("NaN wins over both extrema and makes a clamp NaN; the upper bound wins") {
  Kernels kernels;
  const Tensor b = real(kernels, DType::kF64, {2, kNan, kNan, -kInfinity});
  check_same(f64(kernels, KernelId::kMaximum, {1, 1, kNan, 0}, {b}), {2, kNan, kNan, 0});
  check_same(f64(kernels, KernelId::kMinimum, {1, 1, kNan, 0}, {b}), {1, kNan, kNan, -kInfinity});
  const LocalArg none = std::monostate{};
  check_same(f64(kernels, KernelId::kClamp, {-5, 0, 5, kNan}, {Scalar(-1.0), Scalar(1.0)}),
             {-1, 0, 1, kNan});
  check_same(f64(kernels, KernelId::kClamp, {-5, 5}, {none, Scalar(1.0)}), {-5, 1});
  check_same(f64(kernels, KernelId::kClamp, {-5, 5}, {Scalar(1.0), none}), {1, 5});
  check_same(f64(kernels, KernelId::kClamp, {-5, 0, 5}, {Scalar(3.0), Scalar(1.0)}), {1, 1, 1});
  check_same(f64(kernels, KernelId::kClampMin, {-5, 5}, {Scalar(1.0)}), {1, 5});
  check_same(f64(kernels, KernelId::kClampMax, {-5, 5}, {Scalar(1.0)}), {-5, 1});
}

TEST_CASE("comparisons: NaN is unequal to itself and in no order") {
  Kernels kernels;
  const Tensor a = real(kernels, DType::kF32, {1, 2, kNan, 0}),
               b = real(kernels, DType::kF32, {2, 2, kNan, -0.0});
  const auto told = [&](KernelId kernel) {
    return values_of<bool>(kernels.run(kernel, {a, b}, Dims{4}, DType::kBool));
  };
  CHECK(told(KernelId::kEq) == Truth{false, true, false, true});
  CHECK(told(KernelId::kNe) == Truth{true, false, true, false});
  CHECK(told(KernelId::kLt) == Truth{true, false, false, false});
  CHECK(told(KernelId::kLe) == Truth{true, true, false, true});
  CHECK(told(KernelId::kGt) == Truth{false, false, false, false});
  CHECK(told(KernelId::kGe) == Truth{false, true, false, true});
}

TEST_CASE("integers compare exactly where f64 would round both to one number") {
  Kernels kernels;
  const std::int64_t large = std::int64_t{1} << 53;
  const Tensor a = kernels.i64({1}, {large}), b = kernels.i64({1}, {large + 1});
  CHECK(values_of<bool>(kernels.run(KernelId::kLt, {a, b}, Dims{1}, DType::kBool))[0]);
  CHECK_FALSE(values_of<bool>(kernels.run(KernelId::kEq, {a, b}, Dims{1}, DType::kBool))[0]);
}

TEST_CASE("logic takes any number for true, bits take integers only") {
  Kernels kernels;
  const Tensor a = real(kernels, DType::kF32, {0, 0, 2, kNan}),
               b = real(kernels, DType::kF32, {0, 1, 0, 1});
  const auto told = [&](KernelId kernel) {
    return values_of<bool>(kernels.run(kernel, {a, b}, Dims{4}, DType::kBool));
  };
  CHECK(told(KernelId::kLogicalAnd) == Truth{false, false, false, true});
  CHECK(told(KernelId::kLogicalOr) == Truth{false, true, true, true});
  CHECK(told(KernelId::kLogicalXor) == Truth{false, true, true, false});
  const Tensor m = kernels.i64({2}, {0b1100, -1}), n = kernels.i64({2}, {0b1010, 5});
  CHECK(i64(kernels, KernelId::kBitwiseAnd, {m, n}, 2) == Integers{0b1000, 5});
  CHECK(i64(kernels, KernelId::kBitwiseOr, {m, n}, 2) == Integers{0b1110, -1});
  CHECK(i64(kernels, KernelId::kBitwiseXor, {m, n}, 2) == Integers{0b0110, -6});
  CHECK(i64(kernels, KernelId::kBitwiseNot, {m}, 2) == Integers{-13, 0});
  const Tensor truth = kernels.tensor<std::uint8_t>({2}, DType::kBool, {0, 1});
  CHECK(values_of<bool>(kernels.run(KernelId::kBitwiseNot, {truth}, Dims{2}, DType::kBool)) ==
        Truth{true, false});
  CHECK_THROWS_AS(kernels.run(KernelId::kBitwiseAnd, {a, b}, Dims{4}), Error);
}

TEST_CASE("choices: where() takes each side's element, masked_fill keeps its dtype") {
  Kernels kernels;
  const Tensor mask = kernels.tensor<std::uint8_t>({2, 1}, DType::kBool, {1, 0});
  const Tensor yes = kernels.f32({2}, {1, NAN}), no = kernels.f32({2}, {-1, -2});
  const auto chosen = values_of<float>(kernels.run(KernelId::kWhere, {mask, yes, no}, Dims{2, 2}));
  CHECK(chosen[0] == 1);
  CHECK(std::isnan(chosen[1]));
  CHECK(chosen[2] == -1);
  CHECK(chosen[3] == -2);  // the NaN of the other side does not leak
  const Tensor x = kernels.i64({2, 2}, {1, 2, 3, 4});
  CHECK(values_of<std::int64_t>(kernels.run(KernelId::kMaskedFill, {x, mask, Scalar(-7.9)},
                                            Dims{2, 2}, DType::kI64)) == Integers{-7, -7, 3, 4});
}

TEST_CASE("three and four operands: lerp is exact at both ends, addcmul and addcdiv") {
  Kernels kernels;
  const Tensor end = real(kernels, DType::kF64, {3, 3, 0.1});
  check_same(
      f64(kernels, KernelId::kLerp, {1, 1, 1e16}, {end, real(kernels, DType::kF64, {0, 1, 1})}),
      {1, 3, 0.1});
  check_same(f64(kernels, KernelId::kLerp, {1, 1, 1}, {end, Scalar(0.25)}), {1.5, 1.5, 0.775});
  const Tensor a = real(kernels, DType::kF64, {2, 3}), b = real(kernels, DType::kF64, {4, 8});
  check_same(f64(kernels, KernelId::kAddcmul, {1, 1}, {a, b, Scalar(0.5)}), {5, 13});
  check_same(f64(kernels, KernelId::kAddcdiv, {1, 1}, {a, b, Scalar(2)}), {2, 1.75});
}

TEST_CASE("activations at their corners") {
  Kernels kernels;
  check_same(f64(kernels, KernelId::kRelu, {-1, -0.0, 2, kNan}), {0, 0, 2, kNan});
  check_same(f64(kernels, KernelId::kLeakyRelu, {-2, 0, 2}, {Scalar(0.25)}), {-0.5, 0, 2});
  check_same(f64(kernels, KernelId::kSoftplus, {30, 100}, {Scalar(1), Scalar(20)}), {30, 100});
  CHECK(f64(kernels, KernelId::kSoftplus, {0.5}, {Scalar(2), Scalar(20)})[0] ==
        doctest::Approx(std::log(1 + std::exp(1.0)) / 2));
  check_same(f64(kernels, KernelId::kGelu, {-kInfinity, 0, 40}), {kNan, 0, 40});
  CHECK(f64(kernels, KernelId::kGelu, {1}, {std::string("tanh")})[0] ==
        doctest::Approx(0.5 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * 1.044715))));
}

TEST_CASE("gradients of activations are the slopes of the functions themselves") {
  Kernels kernels;
  const auto slope = [&](KernelId kernel, double x, const std::vector<LocalArg>& rest) {
    constexpr double kStep = 1e-6;
    const Doubles ends = f64(kernels, kernel, {x + kStep, x - kStep}, rest);
    return (ends[0] - ends[1]) / (2 * kStep);
  };
  const auto gradient = [&](KernelId kernel, double x, const std::vector<LocalArg>& rest) {
    std::vector<LocalArg> args{real(kernels, DType::kF64, {x})};
    args.insert(args.end(), rest.begin(), rest.end());
    return f64(kernels, kernel, {3}, args)[0] / 3;
  };
  for (const double x : {-2.0, -0.5, 0.25, 1.5}) {
    CAPTURE(x);
    const std::vector<LocalArg> tanh = {std::string("tanh")}, plus = {Scalar(2), Scalar(20)},
                                leaky = {Scalar(0.125)};
    CHECK(gradient(KernelId::kGeluBackward, x, {}) ==
          doctest::Approx(slope(KernelId::kGelu, x, {})).epsilon(1e-6));
    CHECK(gradient(KernelId::kGeluBackward, x, tanh) ==
          doctest::Approx(slope(KernelId::kGelu, x, tanh)).epsilon(1e-6));
    CHECK(gradient(KernelId::kSiluBackward, x, {}) ==
          doctest::Approx(slope(KernelId::kSilu, x, {})).epsilon(1e-6));
    CHECK(gradient(KernelId::kSoftplusBackward, x, plus) ==
          doctest::Approx(slope(KernelId::kSoftplus, x, plus)).epsilon(1e-6));
    CHECK(gradient(KernelId::kLeakyReluBackward, x, leaky) ==
          doctest::Approx(slope(KernelId::kLeakyRelu, x, leaky)).epsilon(1e-6));
    // These two take the function's value instead of its operand.
    CHECK(gradient(KernelId::kTanhBackward, std::tanh(x), {}) ==
          doctest::Approx(slope(KernelId::kTanh, x, {})).epsilon(1e-6));
    CHECK(gradient(KernelId::kSigmoidBackward, 1 / (1 + std::exp(-x)), {}) ==
          doctest::Approx(slope(KernelId::kSigmoid, x, {})).epsilon(1e-6));
  }
  check_same(f64(kernels, KernelId::kThresholdBackward, {5, 6, 7},
                 {real(kernels, DType::kF64, {-1, 2, 3}), Scalar(2)}),
             {0, 0, 7});
}

TEST_CASE("complex numbers: size, sign, quotient, root") {
  using Complex = std::complex<double>;
  Kernels kernels;
  const Tensor x = kernels.tensor<Complex>({3}, DType::kC128, {{3, 4}, {0, 0}, {-4, 0}});
  CHECK(values_of<double>(kernels.run(KernelId::kAbs, {x}, Dims{3}, DType::kF64)) ==
        Doubles{5, 0, 4});
  const auto signs = values_of<Complex>(kernels.run(KernelId::kSgn, {x}, Dims{3}, DType::kC128));
  CHECK(signs[0] == Complex(0.6, 0.8));
  CHECK(signs[1] == Complex(0, 0));
  CHECK(signs[2] == Complex(-1, 0));
  const auto roots = values_of<Complex>(kernels.run(KernelId::kSqrt, {x}, Dims{3}, DType::kC128));
  CHECK(std::abs(roots[0] - Complex(2, 1)) < 1e-15);
  CHECK(std::abs(roots[2] - Complex(0, 2)) < 1e-15);
  const Tensor i = kernels.tensor<Complex>({}, DType::kC128, {{0, 1}});
  const auto turned =
      values_of<Complex>(kernels.run(KernelId::kDiv, {x, i}, Dims{3}, DType::kC128));
  CHECK(std::abs(turned[0] - Complex(4, -3)) < 1e-15);
}

TEST_CASE("atan2 knows all four quadrants") {
  Kernels kernels;
  const double pi = std::acos(-1.0);
  const Doubles got = f64(kernels, KernelId::kAtan2, {1, 1, -1, -1, 0},
                          {real(kernels, DType::kF64, {1, -1, -1, 1, -1})});
  const Doubles expected = {pi / 4, 3 * pi / 4, -3 * pi / 4, -pi / 4, pi};
  for (std::size_t i = 0; i < 5; ++i) CHECK(got[i] == doctest::Approx(expected[i]));
}

TEST_CASE("exp at both ends: subnormal results are 0, the largest one is finite, NaN stays") {
  Kernels kernels;
  const auto exps = [&](DType dtype, const Doubles& values) {
    const Tensor x = real(kernels, dtype, values);
    const Tensor y = kernels.run(KernelId::kExp, {x}, x.shape(), dtype);
    return values_of<double>(kernels.run(KernelId::kConvert, {y}, x.shape(), DType::kF64));
  };
  const Doubles narrow{-104, -88, -87.25, 0, 88.5, 88.75, kInfinity, -kInfinity, kNan};
  const Doubles wide{-746, -709, -708.25, 0, 709.5, 709.79, kInfinity, -kInfinity, kNan};
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Doubles& x = dtype == DType::kF32 ? narrow : wide;
    const Doubles y = exps(dtype, x);
    const double error = dtype == DType::kF32 ? 2e-7 : 4e-16;
    CHECK(y[0] == 0);
    CHECK(y[1] == 0);
    CHECK(std::abs(y[2] / std::exp(x[2]) - 1) < error);
    CHECK(y[3] == 1);
    CHECK(std::abs(y[4] / std::exp(x[4]) - 1) < error);
    CHECK(y[5] == kInfinity);
    CHECK(y[6] == kInfinity);
    CHECK(y[7] == 0);
    CHECK(std::isnan(y[8]));
  }
}
