// outlook.h - the waiting ranks that can still advance: wait-for analysis of all open rounds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shardlab::threads {

class Group;

/// A round that some ranks of its group have not entered. Global ranks.
struct OpenRound {
  const Group* group = nullptr;
  std::uint64_t sequence = 0;
  std::vector<std::int64_t> blocked;  ///< have entered and wait
  std::vector<std::int64_t> missing;
  bool torn = false;  ///< never completes, whichever ranks enter
  bool any = false;   ///< one of the missing is enough
};

/// For each rank whether it waits and never will advance, whatever the others do but fail: each of
/// its round's missing ranks has ended or is stuck itself somewhere. `before` and `after` are two
/// readings of a world that continues meanwhile; a rank counts as waiting when both saw it in the
/// same round, so that at some time between them all that do waited at once. `ended` was read
/// before `after`.
std::vector<bool> stuck_ranks(std::span<const OpenRound> before, std::span<const OpenRound> after,
                              const std::vector<bool>& ended);

}  // namespace shardlab::threads
