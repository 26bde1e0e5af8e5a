// Bounds with numbers worked out by hand.
#include "sim/verify/step_bounds.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/dtype.h"

namespace shardlab {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

FloatResult one(double got, double exact) {
  FloatResult result;
  result.got = {got};
  result.exact = {exact};
  return result;
}

TEST_CASE("B-13 a bound is 8 u |y*| + u N S + min(n, 8 sqrt(n)) u_acc A + 4 (D + M) + least") {
  const RoundingBound bound{.u = 0.25, .u_accumulator = 0.125, .n = 4, .ranks = 2};
  CHECK(bound.allowed(3, 0, 0, 0, 0) == 6);      // 8 * 0.25 * 3
  CHECK(bound.allowed(-3, 5, 0, 0, 0) == 8.5);   // + 0.25 * 2 * 5
  CHECK(bound.allowed(3, 5, 10, 0, 0) == 13.5);  // + 4 * 0.125 * 10
  CHECK(bound.allowed(3, 5, 10, 0.5, 0) == 15.5);
  CHECK(bound.allowed(3, 5, 10, 0.5, 0.25) == 16.5);
  const RoundingBound small{.u = 0.25, .ranks = 1, .least = 2};
  CHECK(small.allowed(0, 0, 0, 0, 0) == 2);
}

TEST_CASE("B-13 the count of terms enters as it is up to 64, then as 8 times its root") {
  RoundingBound bound{.u = 0, .u_accumulator = 1, .n = 64, .ranks = 1};
  CHECK(bound.allowed(0, 0, 1, 0, 0) == 64);
  bound.n = 100;
  CHECK(bound.allowed(0, 0, 1, 0, 0) == 80);
}

TEST_CASE("B-13 a number is missed where it lies beyond its own bound, whatever others do") {
  FloatResult result;
  result.got = {1, 2, kNaN, 4, 5};
  result.exact = {1, 2.5, 3, 4, kInf};
  const RoundingBound bound{.u = 0.01};
  const Misses missed = misses(result, bound);
  CHECK(missed.count == 3);                        // 2, NaN and 5
  CHECK(misses(one(2.1, 2.0), bound).count == 0);  // 8 * 0.01 * 2 = 0.16
  CHECK(misses(one(2.17, 2.0), bound).count == 1);
}

TEST_CASE("B-13 an infinity is right where the value lies beyond the dtype, and nowhere else") {
  const RoundingBound bound{.u = unit_roundoff(DType::kF16)};
  FloatResult over = one(kInf, 65519);  // the largest f16 is 65504; 65519 rounds to it, within 8 u
  over.dtype = DType::kF16;
  CHECK(misses(over, bound).count == 0);
  over.got = {-kInf};
  CHECK(misses(over, bound).count == 1);
  FloatResult small = one(kInf, 60000);
  small.dtype = DType::kF16;
  CHECK(misses(small, bound).count == 1);
  small.own = {kInf};  // the op itself overflows on the way
  CHECK(misses(small, bound).count == 0);
}

TEST_CASE("B-13 terms that leave the dtype together are undecided where one order of adding does") {
  const RoundingBound bound{.u = unit_roundoff(DType::kF16), .ranks = 2};
  FloatResult sum = one(kNaN, 10);  // 40000 + 40000 - 40000 - 39990: inf - inf over two ranks
  sum.dtype = DType::kF16;
  sum.absolute = {159990};
  CHECK(misses(sum, bound).count == 0);
  CHECK(misses(sum, bound).undecided == 1);
  sum.absolute = {65000};  // no order of additions leaves the dtype
  CHECK(misses(sum, bound).count == 1);
  sum.divisor = 2;  // a mean of terms whose sum does
  CHECK(misses(sum, bound).count == 0);
  FloatResult off = one(0, 10);  // a finite number is no overflow
  off.dtype = DType::kF16;
  off.absolute = {159990};
  CHECK(misses(off, bound).count == 1);
}

TEST_CASE("B-13 half of the smallest subnormal is what a number rounded among them may lose") {
  // The least positive numbers of torch.finfo: smallest_normal times eps.
  CHECK(least_rounding(DType::kF16) == 6.103515625e-05 * 0.0009765625 / 2);
  CHECK(least_rounding(DType::kBF16) == 0x1p-126 * 0.0078125 / 2);
  CHECK(least_rounding(DType::kF32) == double{std::numeric_limits<float>::denorm_min()} / 2);
  CHECK(least_rounding(DType::kF64) == std::numeric_limits<double>::denorm_min());
}

TEST_CASE("B-13 NaN is right where the value is NaN") {
  const RoundingBound bound{.u = 0.1};
  CHECK(misses(one(kNaN, kNaN), bound).count == 0);
  CHECK(misses(one(0, kNaN), bound).count == 1);
  CHECK(misses(one(kNaN, 0), bound).count == 1);
}

}  // namespace
}  // namespace shardlab
