// A fixed point: all that wait count as stuck at first; a round whose missing ranks can all still
// enter frees those that wait in it, until nothing changes. Rounds are read group by group while
// ranks move on, therefore twice: a rank counts as waiting only if it waits at the same place both
// times.
#include "backends/threads/outlook.h"

#include <algorithm>
#include <utility>

namespace shardlab::threads {

namespace {

using Place = std::pair<const Group*, std::uint64_t>;

std::vector<Place> places_of(std::span<const OpenRound> rounds, std::size_t ranks) {
  std::vector<Place> places(ranks, {nullptr, 0});
  for (const OpenRound& round : rounds) {
    for (const std::int64_t rank : round.blocked) {
      places[static_cast<std::size_t>(rank)] = {round.group, round.sequence};
    }
  }
  return places;
}

}  // namespace

std::vector<bool> stuck_ranks(std::span<const OpenRound> before, std::span<const OpenRound> after,
                              const std::vector<bool>& ended) {
  const std::vector<Place> first = places_of(before, ended.size());
  const std::vector<Place> second = places_of(after, ended.size());
  std::vector<bool> waits(ended.size());
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    waits[rank] = second[rank].first != nullptr && first[rank] == second[rank];
  }
  // A rank that waits for ranks that all can advance can advance, too, until nothing changes.
  std::vector<bool> stuck = waits;
  for (bool changed = true; changed;) {
    changed = false;
    for (const OpenRound& round : after) {
      const auto comes = [&](std::int64_t rank) {
        const auto index = static_cast<std::size_t>(rank);
        return !ended[index] && !stuck[index];
      };
      const bool enough = round.any ? std::ranges::any_of(round.missing, comes)
                                    : std::ranges::all_of(round.missing, comes);
      const bool completes = !round.torn && enough;
      if (!completes) continue;
      for (const std::int64_t rank : round.blocked) {
        const auto index = static_cast<std::size_t>(rank);
        changed = changed || stuck[index];
        stuck[index] = false;
      }
    }
  }
  return stuck;
}

}  // namespace shardlab::threads
