// doubted_values.h - values that agree with one device for a wrong reason, or would agree if it
// were told more: numbers of the text that are sizes, and values that one rank sends to all.
// Private to the files that judge.
#pragma once

#include "sim/judge/judged_runs.h"

namespace shardlab {

/// Corrects the facts of such values; the reason says why.
void doubt_values(JudgedRuns& runs);

}  // namespace shardlab
