// sort_order.h - the order in which elements are sorted, on every device. Pure.
#pragma once

#include <cstdint>

#include "kernels/functors.h"

namespace shardlab {

/// NaN is the largest of all, but the least with kNanFirst; all NaN are equal to each other.
enum class SortOrder : std::uint8_t { kAscending, kDescending, kNanFirst };

/// Whether a is before b; neither before the other: equal.
template <typename T>
SHARDLAB_HD inline bool sorts_before(SortOrder order, T a, T b) {
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

/// Whether elements that are equal to a wanted one count as before it.
enum class Equals : std::uint8_t { kLeftOut, kCounted };

/// Number of `count` sorted elements before `key`, or not behind it.
template <typename T>
SHARDLAB_HD inline std::int64_t count_before(const T* sorted, std::int64_t count, T key,
                                             SortOrder order, Equals equals) {
  std::int64_t low = 0, high = count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const bool before = equals == Equals::kLeftOut ? sorts_before(order, sorted[middle], key)
                                                   : !sorts_before(order, key, sorted[middle]);
    if (before) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace shardlab
