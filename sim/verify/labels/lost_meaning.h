// lost_meaning.h - the first call at which the values of ranks are no longer pieces or terms of one
// device's. Private to the files that verify and judge.
#pragma once

#include <optional>

#include "sim/scenario/cause.h"
#include "sim/verify/labels/call_log.h"

namespace shardlab {

/// The first call, in the order of the first rank, whose operands are pieces, terms or replicas of
/// those that the same call has on one device, and whose result is not, with its line; nothing if
/// there is none. Arguments as of for_each_matched.
std::optional<Cause> first_lost(const CallLog& ranks, const CallLog& alone,
                                const MeshLayout& layout, double relative);

}  // namespace shardlab
