// outlook.h - the waiting ranks that can still advance: wait-for analysis of all open rounds.
#pragma once

#include <span>
#include <vector>

#include "backends/shared/waits.h"

namespace shardlab::threads {

/// A round that some ranks of its group have not entered; its place is the group.
using OpenRound = backends::OpenWait;

/// For each rank whether it waits and never will advance, whatever the others do but fail: each of
/// its round's missing ranks has ended or is stuck itself somewhere. `before` and `after` are two
/// readings of a world that continues meanwhile; a rank counts as waiting when both saw it in the
/// same round, so that at some time between them all that do waited at once. `ended` was read
/// before `after`.
std::vector<bool> stuck_ranks(std::span<const OpenRound> before, std::span<const OpenRound> after,
                              const std::vector<bool>& ended);

}  // namespace shardlab::threads
