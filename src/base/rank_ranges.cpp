// Runs of three or more consecutive ranks are folded ("0-3,5"); two are shorter as they are.
#include "base/rank_ranges.h"

#include <fmt/format.h>

namespace shardlab {

std::string rank_ranges(std::span<const std::int64_t> ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last - first < 2) last = first;
    if (!text.empty()) text += ',';
    text += fmt::format("{}", ranks[first]);
    if (last > first) text += fmt::format("-{}", ranks[last]);
    first = last + 1;
  }
  return text;
}

std::string shortened_ranges(std::span<const std::int64_t> ranks, std::size_t longest) {
  const std::string text = rank_ranges(ranks);
  if (text.size() <= longest) return text;
  return text.substr(0, text.rfind(',', longest)) + ",...";
}

}  // namespace shardlab
