// largest_of_window.h - the place that pooling takes from a window: for the CPU and for GPUs.
#pragma once

#include <cstdint>

#include "kernels/functors.h"

namespace shardlab {

/// The place of the largest of a window's elements in a plane `x` of sizes `in`, row-major: the
/// first of equal ones, the last NaN where there is one. `Steps` has `first`, `last` (beyond) and
/// `step` of one dim.
template <typename T, typename Steps>
SHARDLAB_HD inline std::int64_t place_of_largest(const T* x, const std::int64_t (&in)[3], Steps a,
                                                 Steps b, Steps c) {
  std::int64_t best = (a.first * in[1] + b.first) * in[2] + c.first;
  for (std::int64_t i = a.first; i < a.last; i += a.step) {
    for (std::int64_t j = b.first; j < b.last; j += b.step) {
      for (std::int64_t k = c.first; k < c.last; k += c.step) {
        const std::int64_t place = (i * in[1] + j) * in[2] + k;
        if (x[place] > x[best] || is_nan(x[place])) best = place;
      }
    }
  }
  return best;
}

}  // namespace shardlab
