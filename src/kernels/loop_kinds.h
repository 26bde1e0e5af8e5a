// loop_kinds.h - the kinds of loops, for every device; light enough for device compilers. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/functors.h"

namespace shardlab {

/// kLast: the later value, in place of an earlier one.
enum class Fold : std::uint8_t { kSum, kProduct, kMax, kMin, kAny, kAll, kLast };

/// The value that changes no other one.
template <typename T>
constexpr T neutral(Fold fold) {
  if (fold == Fold::kProduct) return T(1);
  if constexpr (std::is_arithmetic_v<T>) {
    using Limits = std::numeric_limits<T>;
    if (fold == Fold::kMax) return Integer<T> ? Limits::lowest() : -Limits::infinity();
    if (fold == Fold::kMin) return Integer<T> ? Limits::max() : Limits::infinity();
  }
  return T(0);
}

/// A value, and those before it, as one; NaN wins extrema, and of equal ones the earlier stays.
/// Truths are folded apart; complex numbers have no extrema.
template <typename T>
SHARDLAB_HD inline T folded(Fold fold, T value, T before) {
  if (fold == Fold::kSum) return sum_of(before, value);
  if (fold == Fold::kProduct) return product_of(before, value);
  if constexpr (std::is_arithmetic_v<T>) {
    if (fold == Fold::kMax) return element::Maximum::apply(value, before);
    if (fold == Fold::kMin) return element::Minimum::apply(value, before);
  }
  return value;
}

/// Running values along a row.
enum class Scan : std::uint8_t { kSum, kProduct, kLogOfSum, kLargest, kSmallest };

}  // namespace shardlab
