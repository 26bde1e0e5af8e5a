// extremum_index.h - argmax and argmin over dims that ranks share. Each rank contributes the
// candidate of its piece, a value and its global index; the whole tensor is never gathered.
#pragma once

#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// Two small all_gathers for each mesh dim that cuts a reduced dim. Of equal values the lowest
/// global index wins and NaN beats every number, however the tensor is cut; empty pieces have no
/// candidate.
Results handle_extremum_index(Calls& calls, const OpRow& row, const Arguments& args);

}  // namespace shardlab
