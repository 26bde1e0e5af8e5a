// explain_values.h - why values are wrong, by runs in which one step has another result. Private to
// the files that judge.
#pragma once

#include "sim/judge/judged_runs.h"

namespace shardlab {

/// Gives the first wrong values their causes, and others that follow from them by messages.
void explain_values(JudgedRuns& runs);

}  // namespace shardlab
