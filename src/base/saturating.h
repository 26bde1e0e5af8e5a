// saturating.h - products of sizes that a user gives, which may not fit.
#pragma once

#include <cstdint>
#include <limits>

namespace shardlab {

/// a * b, both at least 0; the largest number where it does not fit.
inline std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  const bool fits = !__builtin_mul_overflow(a, b, &result);
  return fits ? result : std::numeric_limits<std::int64_t>::max();
}

/// a + |b|, with a at least 0; the largest number where it does not fit.
inline std::int64_t saturating_length(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::int64_t size = b == std::numeric_limits<std::int64_t>::min() ? kMost : b < 0 ? -b : b;
  return a > kMost - size ? kMost : a + size;
}

}  // namespace shardlab
