// n additions in any order err by at most (n - 1) u_acc times the sum of the absolute terms
// (Higham, Accuracy and Stability of Numerical Algorithms, 4.2). Rounding errors of independent
// sign stay below 8 sqrt(n) u_acc of it but with probability 2 exp(-32) = 3e-14 per element
// (Hoeffding).
#include "sim/verify/step_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardlab {

Summing summing_of(const OpRow& row) {
  if (row.computed_by_program()) return Summing::kOther;  // it rounds after each of its ops
  if (row.has(kSumsLinearly)) return Summing::kLinear;
  return row.has(kSumsOneSign) ? Summing::kPositive : Summing::kOther;
}

double RoundingBound::allowed(double exact, double terms, double absolute, double own) const {
  return 8 * u * std::fabs(exact) + u * ranks * terms +
         std::min(n, 8 * std::sqrt(n)) * u_accumulator * absolute + 4 * own;
}

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 65504;
    case DType::kF8E4M3FN:
      return 448;
    case DType::kF64:
    case DType::kC128:
      return std::numeric_limits<double>::max();
    case DType::kBF16:
      return 3.3895313892515355e38;
    default:
      return std::numeric_limits<float>::max();
  }
}

namespace {

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

double at(const std::vector<double>& values, std::size_t i) {
  return values.empty() ? 0 : values[i];
}

// How far number i may be; negative when it is right as it is.
double allowance(const FloatResult& result, const RoundingBound& bound, std::size_t i) {
  const double got = result.got[i], exact = result.exact[i];
  if (same_number(got, exact)) return -1;
  if (!result.own.empty() && same_number(got, result.own[i])) return -1;
  if (!std::isfinite(exact)) return 0;
  const bool own_finite = !result.own.empty() && std::isfinite(result.own[i]);
  const double own = own_finite ? std::fabs(result.own[i] - exact) : 0;
  const double allowed = bound.allowed(exact, at(result.terms, i), at(result.absolute, i), own);
  if (std::isfinite(got)) return allowed;
  // An overflow is right where the value itself lies beyond the dtype, up to its rounding.
  const bool beyond = std::fabs(exact) + allowed >= largest_of(result.dtype);
  return beyond && std::isinf(got) && std::signbit(got) == std::signbit(exact) ? -1 : 0;
}

}  // namespace

Misses misses(const FloatResult& result, const RoundingBound& bound) {
  Misses found;
  double worst_share = -1;
  for (std::size_t i = 0; i < result.got.size(); ++i) {
    const double allowed = allowance(result, bound, i);
    if (allowed < 0) continue;
    const double error = std::fabs(result.got[i] - result.exact[i]);
    if (error <= allowed) continue;  // false for NaN
    ++found.count;
    const double share = std::isfinite(error) ? error / std::max(allowed, 1e-300)
                                              : std::numeric_limits<double>::infinity();
    if (share <= worst_share) continue;
    worst_share = share;
    found.worst = i;
    found.got = result.got[i];
    found.expected = result.exact[i];
    found.error = error;
    found.allowed = allowed;
  }
  return found;
}

}  // namespace shardlab
