// failed_sizes.h - a call that failed for its sizes because a piece met a whole tensor. Private to
// the files that verify and judge.
#pragma once

#include "sim/run/recording.h"
#include "sim/scenario/cause.h"
#include "sim/scenario/scenario.h"

namespace shardlab {

/// The tensors that the statement in `line` names: those of which a rank holds a part of what one
/// device has, and those that are whole; nothing if there are none of one kind.
Cause piece_meets_whole(const Scenario& scenario, const MeshLayout& layout, int line,
                        std::int64_t rank, const Recording& own, const Recording& alone);

}  // namespace shardlab
