// Edit distance with swaps of neighbouring letters (optimal string alignment), in O(a b) time and
// three rows. A name is suggested if at most a third of its letters, but at least one, would have
// to change, and not all of them.
#include "base/nearest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_of_list.h"

namespace shardlab {

int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<int> before_last(width), last(width), row(width);
  for (std::size_t j = 0; j < width; ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j < width; ++j) {
      const int replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t kLongest = 64;  // keeps hostile names cheap
  if (word.empty() || word.size() > kLongest) return std::nullopt;
  const std::string* best = nullptr;
  int best_distance = 0;
  for (const std::string& candidate : known) {
    if (candidate.size() > kLongest) continue;
    const int distance = edit_distance(word, candidate);
    const int allowed = std::max(1, static_cast<int>(std::max(word.size(), candidate.size()) / 3));
    const bool all_replaced = distance >= static_cast<int>(word.size());
    if (distance > allowed || all_replaced) continue;
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best ? std::optional(*best) : std::nullopt;
}

std::string suggest(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t kShown = 12;
  if (known.empty()) return "";
  if (const auto name = nearest(word, known)) return fmt::format("did you mean '{}'?", *name);
  const auto first = known.first(std::min(known.size(), kShown));
  return fmt::format("known: {}{}", text_of_list(first, ", "),
                     known.size() > kShown ? ", ..." : "");
}

}  // namespace shardlab
