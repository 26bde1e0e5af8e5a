// merge.h - consecutive steps of one kind as one collective over several mesh dims. Pure.
#pragma once

#include "plan/plan.h"

namespace shardlab {

/// The plan with consecutive steps merged where a flattened mesh over exactly their dims exists
/// (`flattened`): all-reduces in any order, all-gathers from the last mesh dim to the first,
/// reduce-scatters from the first to the last when the tensor dim divides evenly on every rank. Sum
/// and avg merge into a sum that is divided afterwards. Strided shards are not merged.
Plan merge_steps(const Plan& plan, const FlattenedDims& flattened);

}  // namespace shardlab
