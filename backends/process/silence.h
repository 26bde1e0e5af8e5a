// silence.h - the reason why a wait for other ranks does not end, by the answer of each of them
// about itself (B-16).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/process/standing.h"
#include "comm/verdict.h"

namespace shardlab::process {

/// A rank that waits. Its standing names the collective; without one, it waits for all ranks to do
/// the same.
struct LongWait {
  std::int64_t rank = 0;
  double seconds = 0;                ///< it has waited for
  std::optional<Standing> standing;  ///< none: that of its answer
};

/// The verdict: mismatch if ranks of the group are in calls that cannot meet, deadlock if one of
/// them has ended without its call, else timeout. `standings`: by rank; none: no answer. The
/// culprits of a timeout are those that do not answer, else those that have not arrived.
Verdict verdict_on_wait(const LongWait& wait, std::vector<std::optional<Standing>> standings);

}  // namespace shardlab::process
