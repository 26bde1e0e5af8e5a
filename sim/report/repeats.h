// repeats.h - a sequence in which repeats are folded: a b a b c is (a b) x 2, c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardlab {

/// One element of the sequence, or several that repeat `times` times one after the other.
struct Repeat {
  std::size_t first = 0;      ///< index of the first element in it
  std::int64_t times = 1;     ///< at least 2 if there are parts
  std::vector<Repeat> parts;  ///< the repeated parts; empty: the element itself
};

/// Elements are equal if their numbers are. The shortest repetitions are folded first, then those
/// of folded ones, so that nested loops become nested parts. A body of more than kLongestBody
/// elements, counted after repeats inside of it were folded, is not searched.
inline constexpr std::size_t kLongestBody = 1024;
std::vector<Repeat> folded(const std::vector<int>& sequence);

}  // namespace shardlab
