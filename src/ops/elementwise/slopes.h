// slopes.h - the part that a function of torch shares with the rows of activations.
#pragma once

#include "schema/calls.h"

namespace shardlab {

/// Dropped elements take the lower bound of selu, and the result is scaled to keep mean and
/// variance. `room`: memory for as many draws as there are choices.
DTensor dropped_to_floor(Calls& calls, const DTensor& x, const DTensor& room, double p);

}  // namespace shardlab
