// kept_value.h - a whole value as a report has it, so that two runs can be compared later.
#pragma once

#include <cstdint>
#include <limits>

#include "sim/verify/global_value.h"

namespace shardlab {

/// For keep_value(): every element of values of any size.
inline constexpr std::int64_t kKeepAll = std::numeric_limits<std::int64_t>::max();

/// The first elements of a value, in row-major global order, and a hash of all of them.
struct KeptValue {
  std::int64_t rank = 0;   ///< of the world; the first that holds it
  GlobalValue first;       ///< `meta` is that of the whole value
  std::int64_t count = 0;  ///< elements of the whole value
  double largest = 0;      ///< finite, absolute, of the whole value
  std::uint64_t hash = 0;  ///< of all elements; the same on every machine, for any NaN
};

/// `most`: elements to keep. Copies the kept elements. Time in proportion to the whole value, which
/// is hashed.
KeptValue keep_value(const GlobalValue& whole, std::int64_t rank, std::int64_t most);

}  // namespace shardlab
