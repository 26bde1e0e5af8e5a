// The constants are derived in rounding.h. A dtype's smallest numbers have an absolute error, and a
// sum of large ones may leave the dtype on its way: both are known by the size of the terms, not by
// the result.
#include "sim/verify/step_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schema/computation.h"
#include "schema/op_row.h"
#include "sim/verify/rounding.h"

namespace shardlab {

Summing summing_of(const OpRow& row) {
  if (row.computed_by_program()) return Summing::kOther;  // it rounds after each of its ops
  if (row.has(kSumsLinearly)) return Summing::kLinear;
  return row.has(kSumsOneSign) ? Summing::kPositive : Summing::kOther;
}

double RoundingBound::allowed(double exact, double terms, double absolute, double own,
                              double moved) const {
  using namespace rounding;
  const double sum = kResultRoundings * u * std::fabs(exact) + u * ranks * terms +
                     std::min(n, kHoeffding * std::sqrt(n)) * u_accumulator * absolute +
                     kResponses * (own + moved) + least;
  return share * sum;
}

namespace {

struct RangeRow {
  DType dtype;
  double largest, least_rounding;
};
constexpr double kLargestF64 = std::numeric_limits<double>::max();
constexpr double kLeastF64 = std::numeric_limits<double>::denorm_min();  // its half is no number
constexpr RangeRow kRanges[] = {{DType::kF16, 65504, 0x1p-25},
                                {DType::kF8E4M3FN, 448, 0x1p-10},
                                {DType::kF64, kLargestF64, kLeastF64},
                                {DType::kC128, kLargestF64, kLeastF64},
                                {DType::kBF16, 3.3895313892515355e38, 0x1p-134}};
constexpr RangeRow kOtherRange{DType::kF32, std::numeric_limits<float>::max(), 0x1p-150};

const RangeRow& range_of(DType dtype) {
  const auto* row = std::ranges::find(kRanges, dtype, &RangeRow::dtype);
  return row == std::end(kRanges) ? kOtherRange : *row;
}

}  // namespace

double largest_of(DType dtype) { return range_of(dtype).largest; }

double least_rounding(DType dtype) { return range_of(dtype).least_rounding; }

namespace {

constexpr double kRight = -1, kUndecided = -2;

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

double at(const std::vector<double>& values, std::size_t i) {
  return values.empty() ? 0 : values[i];
}

// A number of f64 that the judge itself cannot add up in another order.
bool is_judged_in_itself(DType dtype) { return dtype == DType::kF64 || dtype == DType::kC128; }

// The allowed error of number i, or kRight or kUndecided.
double allowance(const FloatResult& result, const RoundingBound& bound, std::size_t i) {
  const double got = result.got[i], exact = result.exact[i];
  if (same_number(got, exact)) return kRight;
  if (!result.own.empty() && same_number(got, result.own[i])) return kRight;
  const bool both_finite = std::isfinite(got) && std::isfinite(exact);
  // Terms that leave the dtype together may do so in one order of additions and not in another.
  const double reach = result.divisor * at(result.absolute, i) * (1 + bound.ranks * bound.u);
  const bool by_order = !std::isfinite(got) || is_judged_in_itself(result.dtype);
  if (!both_finite && by_order && reach >= largest_of(result.dtype)) return kUndecided;
  if (!std::isfinite(exact)) return 0;
  const bool own_finite = !result.own.empty() && std::isfinite(result.own[i]);
  const double own = own_finite ? std::fabs(result.own[i] - exact) : 0;
  const double allowed =
      bound.allowed(exact, at(result.terms, i), at(result.absolute, i), own, at(result.moved, i));
  if (std::isfinite(got)) return allowed;
  // An overflow is right if the value itself is beyond the dtype, up to its rounding.
  const bool beyond = std::fabs(exact) + allowed >= largest_of(result.dtype);
  return beyond && std::isinf(got) && std::signbit(got) == std::signbit(exact) ? kRight : 0;
}

}  // namespace

Misses misses(const FloatResult& result, const RoundingBound& bound) {
  Misses found;
  double worst_share = -1;
  for (std::size_t i = 0; i < result.got.size(); ++i) {
    const double off = std::fabs(result.got[i] - result.exact[i]);
    const bool near =
        off <= bound.share * rounding::kResultRoundings * bound.u * std::fabs(result.exact[i]);
    if (near && std::isfinite(off)) continue;
    const double allowed = allowance(result, bound, i);
    if (allowed == kUndecided) ++found.undecided;
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
