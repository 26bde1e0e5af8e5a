// recorded_moves.h - moves and collectives of a recorded event, in the form in which PlayedEvent
// has ours.
#pragma once

#include "sim/files/json.h"

namespace shardlab {

/// Operands that the call had redistributed. Indices that get the mask of a lookup do not move, and
/// are not listed.
Json recorded_moves(const Json& event);
/// Collectives in order. `exchanges`: pieces of a dim may have been exchanged by an all-gather and
/// a cut (K-11), which is an all-to-all here.
Json recorded_collectives(const Json& event, bool exchanges);
/// Whether `got` has all of `expected`, in order, with others between them.
bool has_in_order(const Json& expected, const Json& got);

}  // namespace shardlab
