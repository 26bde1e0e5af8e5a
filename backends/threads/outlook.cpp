// Rounds are read group by group while ranks move on, therefore twice: a rank counts as waiting
// only if it waits at the same place both times.
#include "backends/threads/outlook.h"

#include <cstdint>
#include <utility>

namespace shardlab::threads {

namespace {

using Place = std::pair<const void*, std::uint64_t>;

std::vector<Place> places_of(std::span<const OpenRound> rounds, std::size_t ranks) {
  std::vector<Place> places(ranks, {nullptr, 0});
  for (const OpenRound& round : rounds) {
    for (const std::int64_t rank : round.blocked) {
      places[static_cast<std::size_t>(rank)] = {round.place, round.sequence};
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
  return backends::stuck_ranks(after, std::move(waits), ended);
}

}  // namespace shardlab::threads
