// silence.h - why a wait for other ranks does not end, by what each of them said of itself when it
// was asked (B-16).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/process/standing.h"
#include "comm/verdict.h"

namespace shardlab::process {

/// A rank that waits. Its standing says in which collective; where that is none, it waits for all
/// ranks to do what it does.
struct LongWait {
  std::int64_t rank = 0;
  double seconds = 0;                ///< it has waited for
  std::optional<Standing> standing;  ///< none: what it answers
};

/// The verdict: mismatch where ranks of the group are in calls that cannot meet, deadlock where one
/// of them has ended without its call, else timeout. `standings`: by rank; none: no answer. The
/// culprits of a timeout are those that do not answer, else those that have not come.
Verdict verdict_on_wait(const LongWait& wait, std::vector<std::optional<Standing>> standings);

}  // namespace shardlab::process
