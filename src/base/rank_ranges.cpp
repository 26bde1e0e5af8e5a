// Runs of three or more consecutive ranks are folded ("0-3,5"); two are shorter as they are.
#include "base/rank_ranges.h"

#include <fmt/format.h>

namespace shardlab {

namespace {

RankRanges ranges_of(std::span<const std::int64_t> ranks) {
  RankRanges ranges;
  for (const std::int64_t rank : ranks) add_range(ranges, rank, rank);
  return ranges;
}

std::string text_of(const RankRanges& ranges) {
  std::string text;
  for (const auto& [first, last] : ranges) {
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first)
                          : fmt::format("{}{}{}", first, last - first < 2 ? ',' : '-', last);
  }
  return text;
}

}  // namespace

void add_range(RankRanges& ranges, std::int64_t first, std::int64_t last) {
  const bool goes_on = !ranges.empty() && ranges.back().second + 1 == first;
  if (!goes_on) ranges.emplace_back(first, last);
  ranges.back().second = last;
}

std::string rank_ranges(std::span<const std::int64_t> ranks) { return text_of(ranges_of(ranks)); }

std::string shortened_ranges(std::span<const std::int64_t> ranks, std::size_t longest) {
  return shortened_text(ranges_of(ranks), longest);
}

std::string shortened_text(const RankRanges& ranges, std::size_t longest) {
  const std::string text = text_of(ranges);
  if (text.size() <= longest) return text;
  return text.substr(0, text.rfind(',', longest)) + ",...";
}

}  // namespace shardlab
