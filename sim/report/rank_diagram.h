// rank_diagram.h - the calls of all ranks as a picture, for the page of a run.
#pragma once

#include "sim/files/json.h"
#include "sim/judge/scenario_run.h"

namespace shardlab {

/// `calls`: for each rank its messages and collectives, each with its first column and the one
/// behind its last (null: it never completed), text, line and kind; `messages`: pairs of rank and
/// number of the call, from and to. `schedule`: for each rank the computations of a pipeline
/// schedule that the program read, with their columns. `left_out`: calls of a rank beyond the first
/// 1,000. Null if nothing is known.
Json rank_diagram(const ScenarioResult& result);

}  // namespace shardlab
