// repeats.h - a sequence in which what repeats is folded: a b a b c is (a b) x 2, c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardlab {

/// One element of the sequence, or several that stand there `times` times one after the other.
struct Repeat {
  std::size_t first = 0;      ///< index of the first element that it stands for
  std::int64_t times = 1;     ///< at least 2 where there are parts
  std::vector<Repeat> parts;  ///< what repeats; empty: the element itself
};

/// Elements are equal where their numbers are. The shortest repetitions are folded first, then
/// those of what was folded, so that nested loops become nested parts. A body of more than
/// kLongestBody elements, counted after what repeats inside of it was folded, is not looked for.
inline constexpr std::size_t kLongestBody = 1024;
std::vector<Repeat> folded(const std::vector<int>& sequence);

}  // namespace shardlab
