// sort_order.h - the order in which elements are sorted, on every device. Pure.
#pragma once

#include <cstdint>

#include "kernels/functors.h"

namespace shardlab {

/// NaN is the largest of all, but the least with kNanFirst; all NaN are equal to each other.
enum class SortOrder : std::uint8_t { kAscending, kDescending, kNanFirst };

/// Whether a is before b; neither before the other: equal.
template <typename T>
SHARDLAB_HD inline bool goes_before(SortOrder order, T a, T b) {
  switch (order) {
    case SortOrder::kAscending:
      return !is_nan(a) && (is_nan(b) || a < b);
    case SortOrder::kDescending:
      return !is_nan(b) && (is_nan(a) || b < a);
    case SortOrder::kNanFirst:
      return !is_nan(b) && (is_nan(a) || a < b);
  }
  return false;
}

}  // namespace shardlab
