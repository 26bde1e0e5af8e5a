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

}  // namespace shardlab
