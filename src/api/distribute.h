// distribute.h - making DTensors from whole values.
#pragma once

#include "mesh/dtensor.h"

namespace shardlab {

/// Places a plain tensor, equal on all ranks, on a mesh: each rank cuts its own piece, no
/// collective. A partial gives rank r a deterministic, unequal part whose reduction is the value
/// (scenarios/README.md section 2). Ranks outside the mesh get an empty local tensor (D-37).
DTensor distribute(const Tensor& value, const DTensorSpec* spec);

/// The same dealing-out for a value whose pieces are in place already: `pieces` holds, on every
/// rank, its piece of the whole under `spec` with the partial mesh dims still replicated.
DTensor deal_partials(const DTensor& pieces, const DTensorSpec* spec);

}  // namespace shardlab
