// Narrow integers in kernels: all values are those of PyTorch, which takes a number next to a
// tensor of integers as one of them.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/promotion.h"
#include "tensor/host.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

using Integers = std::vector<std::int64_t>;

const Integers kBytes = {227, 195, 0, 5};               // u8
const Integers kSmall = {-128, -5, 0, 127};             // i8
const Integers kShort = {-32768, 300, 0, 7};            // i16
const Integers kMiddle = {-2147483648LL, 70000, 0, 7};  // i32

struct Row {
  KernelId kernel;
  DType dtype;
  Integers values;
  std::int64_t number;
  Integers expected;
};

// clang-format off
const Row kRows[] = {
    {KernelId::kAdd, DType::kU8, kBytes, -5, {222, 190, 251, 0}},
    {KernelId::kAdd, DType::kU8, kBytes, 300, {15, 239, 44, 49}},
    {KernelId::kMul, DType::kU8, kBytes, -5, {145, 49, 0, 231}},
    {KernelId::kMul, DType::kU8, kBytes, 300, {4, 132, 0, 220}},
    {KernelId::kRemainder, DType::kU8, kBytes, -5, {227, 195, 0, 5}},
    {KernelId::kRemainder, DType::kU8, kBytes, 300, {7, 19, 0, 5}},
    {KernelId::kDiv, DType::kU8, kBytes, -5, {0, 0, 0, 0}},
    {KernelId::kDiv, DType::kU8, kBytes, 300, {5, 4, 0, 0}},
    {KernelId::kEq, DType::kU8, kBytes, -5, {0, 0, 0, 0}},
    {KernelId::kEq, DType::kU8, kBytes, 300, {0, 0, 0, 0}},
    {KernelId::kLt, DType::kU8, kBytes, -5, {1, 1, 1, 1}},
    {KernelId::kLt, DType::kU8, kBytes, 300, {0, 0, 1, 1}},
    {KernelId::kGt, DType::kU8, kBytes, -5, {0, 0, 0, 0}},
    {KernelId::kGt, DType::kU8, kBytes, 300, {1, 1, 0, 0}},
    {KernelId::kBitwiseAnd, DType::kU8, kBytes, -5, {227, 195, 0, 1}},
    {KernelId::kBitwiseAnd, DType::kU8, kBytes, 300, {32, 0, 0, 4}},
    {KernelId::kLeftShift, DType::kU8, kBytes, -5, {0, 0, 0, 0}},
    {KernelId::kLeftShift, DType::kU8, kBytes, 300, {0, 0, 0, 0}},
    {KernelId::kRightShift, DType::kU8, kBytes, -5, {0, 0, 0, 0}},
    {KernelId::kRightShift, DType::kU8, kBytes, 300, {0, 0, 0, 0}},
    {KernelId::kAdd, DType::kI8, kSmall, 200, {72, -61, -56, 71}},
    {KernelId::kAdd, DType::kI8, kSmall, 300, {-84, 39, 44, -85}},
    {KernelId::kAdd, DType::kI8, kSmall, -129, {-1, 122, 127, -2}},
    {KernelId::kMul, DType::kI8, kSmall, 200, {0, 24, 0, 56}},
    {KernelId::kMul, DType::kI8, kSmall, 300, {0, 36, 0, -44}},
    {KernelId::kMul, DType::kI8, kSmall, -129, {-128, -123, 0, 1}},
    {KernelId::kRemainder, DType::kI8, kSmall, 200, {-16, -5, 0, -41}},
    {KernelId::kRemainder, DType::kI8, kSmall, 300, {4, 39, 0, 39}},
    {KernelId::kRemainder, DType::kI8, kSmall, -129, {126, 122, 0, 0}},
    {KernelId::kDiv, DType::kI8, kSmall, 200, {2, 0, 0, -3}},
    {KernelId::kDiv, DType::kI8, kSmall, 300, {-3, -1, 0, 2}},
    {KernelId::kDiv, DType::kI8, kSmall, -129, {-2, -1, 0, 1}},
    {KernelId::kEq, DType::kI8, kSmall, 200, {0, 0, 0, 0}},
    {KernelId::kEq, DType::kI8, kSmall, 300, {0, 0, 0, 0}},
    {KernelId::kEq, DType::kI8, kSmall, -129, {0, 0, 0, 1}},
    {KernelId::kLt, DType::kI8, kSmall, 200, {1, 0, 0, 0}},
    {KernelId::kLt, DType::kI8, kSmall, 300, {1, 1, 1, 0}},
    {KernelId::kLt, DType::kI8, kSmall, -129, {1, 1, 1, 0}},
    {KernelId::kGt, DType::kI8, kSmall, 200, {0, 1, 1, 1}},
    {KernelId::kGt, DType::kI8, kSmall, 300, {0, 0, 0, 1}},
    {KernelId::kGt, DType::kI8, kSmall, -129, {0, 0, 0, 0}},
    {KernelId::kBitwiseAnd, DType::kI8, kSmall, 200, {-128, -56, 0, 72}},
    {KernelId::kBitwiseAnd, DType::kI8, kSmall, 300, {0, 40, 0, 44}},
    {KernelId::kBitwiseAnd, DType::kI8, kSmall, -129, {0, 123, 0, 127}},
    {KernelId::kLeftShift, DType::kI8, kSmall, 200, {0, 0, 0, 0}},
    {KernelId::kLeftShift, DType::kI8, kSmall, 300, {0, 0, 0, 0}},
    {KernelId::kLeftShift, DType::kI8, kSmall, -129, {0, 0, 0, 0}},
    {KernelId::kRightShift, DType::kI8, kSmall, 200, {-1, -1, 0, 0}},
    {KernelId::kRightShift, DType::kI8, kSmall, 300, {-1, -1, 0, 0}},
    {KernelId::kRightShift, DType::kI8, kSmall, -129, {-1, -1, 0, 0}},
    {KernelId::kAdd, DType::kI16, kShort, 70000, {-28304, 4764, 4464, 4471}},
    {KernelId::kAdd, DType::kI16, kShort, -40000, {-7232, 25836, 25536, 25543}},
    {KernelId::kMul, DType::kI16, kShort, 70000, {0, 28480, 0, 31248}},
    {KernelId::kMul, DType::kI16, kShort, -40000, {0, -6912, 0, -17856}},
    {KernelId::kRemainder, DType::kI16, kShort, 70000, {2944, 300, 0, 7}},
    {KernelId::kRemainder, DType::kI16, kShort, -40000, {18304, 300, 0, 7}},
    {KernelId::kDiv, DType::kI16, kShort, 70000, {-8, 0, 0, 0}},
    {KernelId::kDiv, DType::kI16, kShort, -40000, {-2, 0, 0, 0}},
    {KernelId::kEq, DType::kI16, kShort, 70000, {0, 0, 0, 0}},
    {KernelId::kEq, DType::kI16, kShort, -40000, {0, 0, 0, 0}},
    {KernelId::kLt, DType::kI16, kShort, 70000, {1, 1, 1, 1}},
    {KernelId::kLt, DType::kI16, kShort, -40000, {1, 1, 1, 1}},
    {KernelId::kGt, DType::kI16, kShort, 70000, {0, 0, 0, 0}},
    {KernelId::kGt, DType::kI16, kShort, -40000, {0, 0, 0, 0}},
    {KernelId::kBitwiseAnd, DType::kI16, kShort, 70000, {0, 288, 0, 0}},
    {KernelId::kBitwiseAnd, DType::kI16, kShort, -40000, {0, 256, 0, 0}},
    {KernelId::kLeftShift, DType::kI16, kShort, 70000, {0, 0, 0, 0}},
    {KernelId::kLeftShift, DType::kI16, kShort, -40000, {0, 0, 0, 0}},
    {KernelId::kRightShift, DType::kI16, kShort, 70000, {-1, 0, 0, 0}},
    {KernelId::kRightShift, DType::kI16, kShort, -40000, {-1, 0, 0, 0}},
    {KernelId::kAdd, DType::kI32, kMiddle, 1099511627779, {-2147483645, 70003, 3, 10}},
    {KernelId::kAdd, DType::kI32, kMiddle, -2147483649, {-1, -2147413649, 2147483647, -2147483642}},
    {KernelId::kMul, DType::kI32, kMiddle, 1099511627779, {-2147483648, 210000, 0, 21}},
    {KernelId::kMul, DType::kI32, kMiddle, -2147483649, {-2147483648, -70000, 0, 2147483641}},
    {KernelId::kRemainder, DType::kI32, kMiddle, 1099511627779, {1, 1, 0, 1}},
    {KernelId::kRemainder, DType::kI32, kMiddle, -2147483649, {2147483646, 70000, 0, 7}},
    {KernelId::kDiv, DType::kI32, kMiddle, 1099511627779, {-715827883, 23333, 0, 2}},
    {KernelId::kDiv, DType::kI32, kMiddle, -2147483649, {-2, 0, 0, 0}},
    {KernelId::kEq, DType::kI32, kMiddle, 1099511627779, {0, 0, 0, 0}},
    {KernelId::kEq, DType::kI32, kMiddle, -2147483649, {0, 0, 0, 0}},
    {KernelId::kLt, DType::kI32, kMiddle, 1099511627779, {1, 0, 1, 0}},
    {KernelId::kLt, DType::kI32, kMiddle, -2147483649, {1, 1, 1, 1}},
    {KernelId::kGt, DType::kI32, kMiddle, 1099511627779, {0, 1, 0, 1}},
    {KernelId::kGt, DType::kI32, kMiddle, -2147483649, {0, 0, 0, 0}},
    {KernelId::kBitwiseAnd, DType::kI32, kMiddle, 1099511627779, {0, 0, 0, 3}},
    {KernelId::kBitwiseAnd, DType::kI32, kMiddle, -2147483649, {0, 70000, 0, 7}},
    {KernelId::kLeftShift, DType::kI32, kMiddle, 1099511627779, {0, 560000, 0, 56}},
    {KernelId::kLeftShift, DType::kI32, kMiddle, -2147483649, {0, 0, 0, 0}},
    {KernelId::kRightShift, DType::kI32, kMiddle, 1099511627779, {-268435456, 8750, 0, 0}},
    {KernelId::kRightShift, DType::kI32, kMiddle, -2147483649, {-1, 0, 0, 0}},
};
// clang-format on

bool compares(KernelId kernel) {
  return kernel == KernelId::kEq || kernel == KernelId::kLt || kernel == KernelId::kGt;
}

Tensor integers(Kernels& kernels, DType dtype, const Integers& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  const Tensor wide = kernels.i64({count}, values);
  return kernels.run(KernelId::kConvert, {wide}, {count}, dtype);
}

/// The result of the row's op; a division is the rounded one.
Tensor computed(Kernels& kernels, const Row& row, const LocalArg& other) {
  const Tensor x = integers(kernels, row.dtype, row.values);
  std::vector<LocalArg> args{x, other};
  if (row.kernel == KernelId::kDiv) args.emplace_back(std::string("floor"));
  return kernels.run(row.kernel, args, x.shape(), compares(row.kernel) ? DType::kBool : row.dtype);
}

Tensor f64(Kernels& kernels, const std::vector<double>& values) {
  return kernels.tensor({static_cast<std::int64_t>(values.size())}, DType::kF64, values);
}

}  // namespace

TEST_CASE("a number beside narrow integers is one of them") {
  Kernels kernels;
  for (const Row& row : kRows) {
    CAPTURE(static_cast<int>(row.kernel));
    CAPTURE(to_string(row.dtype));
    CAPTURE(row.number);
    CHECK(read_integers(computed(kernels, row, Scalar(row.number))) == row.expected);
    // A tensor without dims counts as little as a number.
    const Tensor point = kernels.i64({}, {row.number});
    CHECK(read_integers(computed(kernels, row, point)) == row.expected);
  }
}

TEST_CASE("a divisor that wraps to 0 is 0, and nothing is divided by it") {
  Kernels kernels;
  const Tensor bytes = integers(kernels, DType::kU8, kBytes);
  for (const KernelId kernel : {KernelId::kRemainder, KernelId::kFmod}) {
    CHECK_THROWS_AS(kernels.run(kernel, {bytes, Scalar(256)}, {4}, DType::kU8), Error);
  }
  const Tensor none = integers(kernels, DType::kU8, {});
  CHECK(
      read_integers(kernels.run(KernelId::kRemainder, {none, Scalar(0)}, {0}, DType::kU8)).empty());
}

TEST_CASE("bounds of a clamp do not wrap") {
  Kernels kernels;
  const Tensor x = integers(kernels, DType::kI8, kSmall);
  CHECK(read_integers(kernels.run(KernelId::kClamp, {x, Scalar(-200), Scalar(200)}, {4},
                                  DType::kI8)) == kSmall);
  CHECK(read_integers(kernels.run(KernelId::kClampMax, {x, Scalar(200)}, {4}, DType::kI8)) ==
        kSmall);
  const Tensor bytes = integers(kernels, DType::kU8, kBytes);
  CHECK(read_integers(kernels.run(KernelId::kClampMin, {bytes, Scalar(-5)}, {4}, DType::kU8)) ==
        kBytes);
  CHECK(read_integers(kernels.run(KernelId::kClamp, {bytes, Scalar(-5), Scalar(100)}, {4},
                                  DType::kU8)) == Integers{100, 100, 0, 5});
  const Tensor half = kernels.run(KernelId::kConvert, {f64(kernels, {-0.5, 7})}, {2}, DType::kF16);
  CHECK(read_doubles(kernels.run(KernelId::kClamp, {half, Scalar(0), Scalar(3)}, {2},
                                 DType::kF16)) == std::vector<double>{0, 3});
}

TEST_CASE("shifts by more bits than there are, or by negative ones, shift all out") {
  Kernels kernels;
  const Tensor x = kernels.i64({4}, {1, -2, 3, -1});
  for (const std::int64_t bits : {64, 100, -1}) {
    CHECK(read_integers(kernels.run(KernelId::kLeftShift, {x, Scalar(bits)}, {4}, DType::kI64)) ==
          Integers{0, 0, 0, 0});
    CHECK(read_integers(kernels.run(KernelId::kRightShift, {x, Scalar(bits)}, {4}, DType::kI64)) ==
          Integers{0, -1, 0, -1});
  }
  const Tensor small = integers(kernels, DType::kI8, {1, -1, -128});
  const Tensor bits = integers(kernels, DType::kI8, {7, 8, 1});
  CHECK(read_integers(kernels.run(KernelId::kLeftShift, {small, bits}, {3}, DType::kI8)) ==
        Integers{-128, 0, 0});
  CHECK(read_integers(kernels.run(KernelId::kRightShift,
                                  {small, integers(kernels, DType::kI8, {-1, 8, 9})}, {3},
                                  DType::kI8)) == Integers{0, -1, -1});
}

TEST_CASE(
    "floats that are out of an integer's range, and NaN, become what processors make of them") {
  Kernels kernels;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = f64(kernels, {3000000044., -3000000044., 1099511627785., 1e19, -1.5, 255.9, kNan,
                                 INFINITY, -INFINITY});
  const auto as = [&](DType dtype) {
    return read_integers(kernels.run(KernelId::kConvert, {x}, {9}, dtype));
  };
  constexpr std::int64_t kMin32 = std::numeric_limits<std::int32_t>::min();
  constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
  CHECK(as(DType::kU8) == Integers{44, 212, 9, 0, 255, 255, 0, 0, 0});
  CHECK(as(DType::kI8) == Integers{0, 0, 0, 0, -1, -1, 0, 0, 0});
  CHECK(as(DType::kI16) == Integers{0, 0, 0, 0, -1, 255, 0, 0, 0});
  CHECK(as(DType::kI32) ==
        Integers{kMin32, kMin32, kMin32, kMin32, -1, 255, kMin32, kMin32, kMin32});
  CHECK(as(DType::kI64) ==
        Integers{3000000044, -3000000044, 1099511627785, kMin64, -1, 255, kMin64, kMin64, kMin64});
  CHECK(as(DType::kBool) == Integers{1, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("X-50 the extremum of nothing is the last number of the stored dtype") {
  Kernels kernels;
  struct Bounds {
    DType dtype;
    double least, most;
  };
  const Bounds bounds[] = {
      {DType::kBool, 0, 1},
      {DType::kU8, 0, 255},
      {DType::kI8, -128, 127},
      {DType::kI16, -32768, 32767},
      {DType::kI32, -2147483648., 2147483647.},
      {DType::kI64, -0x1p63, 0x1p63},
      {DType::kBF16, -INFINITY, INFINITY},
      {DType::kF16, -INFINITY, INFINITY},
      {DType::kF32, -INFINITY, INFINITY},
  };
  for (const Bounds& row : bounds) {
    CAPTURE(to_string(row.dtype));
    const Tensor none = empty(kernels.device(), Dims{2, 0}, row.dtype);
    const auto of = [&](KernelId kernel) {
      return read_doubles(kernels.run(kernel, {none, Dims{1}}, Dims{2}, row.dtype));
    };
    CHECK(of(KernelId::kAmax) == std::vector<double>{row.least, row.least});
    CHECK(of(KernelId::kAmin) == std::vector<double>{row.most, row.most});
  }
}

TEST_CASE("numbers that are stored have to be in range, those of u8 may wrap once") {
  CHECK(representable(Scalar(-255), DType::kU8));
  CHECK_FALSE(representable(Scalar(-256), DType::kU8));
  CHECK_FALSE(representable(Scalar(256), DType::kU8));
  CHECK_FALSE(representable(Scalar(-0.5), DType::kU8));
  CHECK(representable(Scalar(255.5), DType::kU8));
  CHECK(representable(Scalar(127.9), DType::kI8));
  CHECK_FALSE(representable(Scalar(-128.5), DType::kI8));
  CHECK_FALSE(representable(Scalar(1e20), DType::kI64));
  CHECK_FALSE(representable(Scalar(std::nan("")), DType::kI32));
  CHECK(representable(Scalar(300), DType::kBool));
  CHECK(representable(Scalar(1e10), DType::kF16));
}
