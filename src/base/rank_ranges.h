// rank_ranges.h - many ranks in a short text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardlab {

/// "0-3,7,8": three and more consecutive ranks fold; the order is kept. Ranks may be in any order;
/// ranks that repeat are repeated.
std::string rank_ranges(std::span<const std::int64_t> ranks);
/// The same, cut after a whole range where it is longer than `longest` characters: "0,2,4,...".
std::string shortened_ranges(std::span<const std::int64_t> ranks, std::size_t longest);

/// First and last rank of each range.
using RankRanges = std::vector<std::pair<std::int64_t, std::int64_t>>;
/// Adds a range at the end, which may go on with the one before.
void add_range(RankRanges& ranges, std::int64_t first, std::int64_t last);
/// Their text, as that of shortened_ranges().
std::string shortened_text(const RankRanges& ranges, std::size_t longest);

}  // namespace shardlab
