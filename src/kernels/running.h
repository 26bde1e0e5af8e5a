// running.h - one step of a running value along a row, on every device: sums of exponentials,
// extrema. Pure.
#pragma once

#include <cmath>

#include "kernels/functors.h"

namespace shardlab {

enum class Extreme : std::uint8_t { kLargest, kSmallest };

/// Whether `next` is the extremum from here on, in place of `best`: of equals the latest is, and
/// NaN wins over every number.
template <Extreme extreme, typename T>
SHARDLAB_HD inline bool takes_over(T next, T best) {
  if (is_nan(next) || is_nan(best)) return is_nan(next);
  return extreme == Extreme::kLargest ? next >= best : next <= best;
}

/// log(exp(a) + exp(b)) around the larger one, so that nothing overflows.
SHARDLAB_HD inline double log_of_sum(double a, double b) {
  if (is_nan(a) || is_nan(b)) return a + b;
  const double most = a > b ? a : b, least = a > b ? b : a;
  if (std::isinf(most) && most == least) return most;
  return most + std::log(1.0 + std::exp(least - most));
}

}  // namespace shardlab
