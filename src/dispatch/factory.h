// factory.h - ops without tensor inputs (zeros, arange, randn, ...) straight into the pieces of a
// spec.
// Values do not depend on mesh or placements: position-dependent kernels get global indices.
#pragma once

#include "schema/calls.h"

namespace shardlab {

struct OpRow;

/// Runs the factory `row` for this rank's piece of `spec`, whose placements hold no partial
/// (Value).
/// Random rows draw from `random`, or from the rank's own state when null, and advance it by the
/// global element count. Ranks outside the mesh get an empty piece and advance by the same count.
DTensor dispatch_factory(const OpRow& row, const Arguments& args, const DTensorSpec* spec,
                         RandomState* random = nullptr);

}  // namespace shardlab
