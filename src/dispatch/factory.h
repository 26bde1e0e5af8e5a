// factory.h - ops without tensor inputs (zeros, arange, randn, ...) straight into the pieces of a
// spec.
// Values do not depend on mesh or placements: position-dependent kernels get global indices.
#pragma once

#include "schema/op_row.h"

namespace shardlab {

/// Runs the factory `row` for this rank's piece of `spec`, whose placements hold no partial
/// (Value).
/// Random rows draw from `random`, or from the rank's own state when null, and advance it by the
/// global element count. Ranks outside the mesh get an empty piece and advance by the same count.
DTensor dispatch_factory(const OpRow& row, const Arguments& args, const DTensorSpec* spec,
                         RandomState* random = nullptr);

/// The tensor that a rank outside the mesh holds for a value (D-37): a zero for 0-dim, else 1-d and
/// empty.
Tensor outsider_value(const DTensorSpec& spec);

}  // namespace shardlab
