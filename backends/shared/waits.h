// waits.h - ranks that wait for each other: the analysis that deadlock reports, proofs and
// autopsies share. Pure functions of what ranks do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/verdict.h"

namespace shardlab::backends {

/// A walk from one wait to its cause, and so on.
struct Walk {
  std::vector<std::size_t> nodes;
  bool circle = false;  ///< the nodes of the circle alone, the lowest first; else the whole walk
};
/// `next` gives the cause of a node's wait; -1: it has none that waits.
Walk walk_from(std::size_t start, const std::function<std::int64_t(std::size_t)>& next);

/// Ranks that wait in one place until others come there. Global ranks.
struct OpenWait {
  const void* place = nullptr;  ///< known by its address and a number
  std::uint64_t sequence = 0;
  std::vector<std::int64_t> blocked;  ///< have come and wait
  std::vector<std::int64_t> missing;
  bool torn = false;  ///< never ends, whoever comes
  bool any = false;   ///< one of the missing is enough
};
/// Leaves those of `waiting`, by rank, that never advance: each rank that they miss has ended or
/// is stuck itself.
std::vector<bool> stuck_ranks(std::span<const OpenWait> waits, std::vector<bool> waiting,
                              const std::vector<bool>& ended);

/// The ranks that a deadlock misses: awaited ranks that have ended, else all that are awaited.
std::vector<std::int64_t> missed(std::span<const RankReport> reports);
/// Verdict::cause of a deadlock: "rank 0 sends to rank 1 (line 12) while rank 1 sends to rank 0
/// (line 12)"; empty where no message takes part. `reports` by rank.
std::string circle_of(std::span<const RankReport> reports);

}  // namespace shardlab::backends
