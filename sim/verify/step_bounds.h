// step_bounds.h - the largest distance that rounding may cause between a call's result and the op's
// value on the same operands, and elements beyond it (scenarios/README.md, section 6).
#pragma once

#include <cstdint>
#include <vector>

#include "schema/calls.h"
#include "sim/verify/step_verdict.h"

namespace shardlab {

struct OpRow;

/// The way in which an op's kernels round.
enum class Summing : std::uint8_t {
  kLinear,    ///< linear in its operands: the op on absolute values bounds the terms
  kPositive,  ///< terms of one sign: the result itself bounds the terms
  kOther,     ///< known by its response to small changes of its operands
};
Summing summing_of(const OpRow& row);

/// The parts of |y - y*| <= 8 u |y*| + u N S + min(n, 8 sqrt(n)) u_acc A + 4 (D + M) + least.
struct RoundingBound {
  double u = 0;              ///< roundoff of the result's dtype, or of an operand's if coarser
  double u_accumulator = 0;  ///< of the dtype in which sums are computed
  double n = 1;              ///< terms that one rank adds
  double ranks = 1;          ///< N: ranks whose terms are added
  double least = 0;          ///< the error of rounding among subnormal numbers, in units of y
  double share = 1;          ///< the part of the bound that is used

  /// `terms` S, `absolute` A, `own` D: |op in its own dtype - y*|, `moved` M: the change of y* when
  /// operands change by their own rounding.
  double allowed(double exact, double terms, double absolute, double own, double moved) const;
};

/// One float result, row-major; complex elements are two numbers.
struct FloatResult {
  std::vector<double> got, exact;
  std::vector<double> terms;     ///< of pending results; empty: none
  std::vector<double> absolute;  ///< empty: 0
  std::vector<double> own;       ///< the op in its own dtype; empty: not asked for
  std::vector<double> moved;     ///< empty: 0
  double divisor = 1;            ///< the divisor of sums of terms after they are added
  DType dtype = DType::kF32;
};

/// The elements beyond the allowed error, and the worst of them.
struct Misses {
  std::int64_t count = 0;
  std::int64_t undecided = 0;  ///< right, but their overflow depends on the order of additions
  std::size_t worst = 0;       ///< number, not element
  double got = 0, expected = 0, error = 0, allowed = 0;
};
Misses misses(const FloatResult& result, const RoundingBound& bound);

/// Largest finite number of a floating or complex dtype.
double largest_of(DType dtype);
/// The most that rounding to a floating or complex dtype takes off a number among its subnormals:
/// half of the smallest one.
double least_rounding(DType dtype);

}  // namespace shardlab
