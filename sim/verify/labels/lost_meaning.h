// lost_meaning.h - the call at which what ranks hold stopped to be pieces or terms of what one
// device has. Private to the files that verify and judge.
#pragma once

#include <optional>
#include <string>

#include "sim/verify/cause.h"
#include "sim/verify/labels/call_log.h"

namespace shardlab {

/// A cause and the line of the call that it speaks of.
struct LostMeaning {
  Cause cause;
  int line = 0;
};

/// The first call, in the order of the first rank, whose operands are pieces, terms or replicas of
/// those that the same call has on one device, and whose result is not; nothing where there is
/// none. Arguments as of for_each_matched.
std::optional<LostMeaning> first_lost(const CallLog& ranks, const CallLog& alone,
                                      const MeshLayout& layout, double relative);

}  // namespace shardlab
