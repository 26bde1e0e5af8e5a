// loop_kinds.h - the kinds of loops, for every device; light enough for device compilers. Pure.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/functors.h"

namespace shardlab {

enum class Fold : std::uint8_t { kSum, kProduct, kMax, kMin, kAny, kAll };

/// Running values along a row.
enum class Scan : std::uint8_t { kSum, kProduct, kLogOfSum, kLargest, kSmallest };

/// The element that a value makes of an old one.
enum class ScatterMode : std::uint8_t { kAssign, kAdd, kMultiply, kLargest, kLeast };

/// Of equal extrema the one that is already there stays. Complex numbers have none.
template <typename T>
SHARDLAB_HD inline T scattered(ScatterMode mode, T old, T value) {
  if (mode == ScatterMode::kAdd) return sum_of(old, value);
  if (mode == ScatterMode::kMultiply) return product_of(old, value);
  if constexpr (std::is_arithmetic_v<T>) {
    if (mode == ScatterMode::kLargest) return element::Maximum::apply(value, old);
    if (mode == ScatterMode::kLeast) return element::Minimum::apply(value, old);
  }
  return value;
}

}  // namespace shardlab
