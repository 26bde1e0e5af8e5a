// list_operands.h - pending reductions in calls of foreach ops with a tensor next to their lists:
// _foreach_mul(xs, scale).
#pragma once

#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// The arguments with these reductions carried out: the tensor next to the lists is placed
/// once for all elements, and a pending reduction suits some of them and not others. Communicates.
///   fails  Runtime: it would have to be carried out in an element that the op writes to
Arguments with_whole_operands(const OpRow& row, const Arguments& args);

}  // namespace shardlab
