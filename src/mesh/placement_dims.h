// placement_dims.h - the tensor dims that placements name, as users write them.
#pragma once

#include "base/error.h"
#include "mesh/placement.h"

namespace shardlab {

/// The same with dims counted from the front (normalize_dims).
///   fails  Value: a dim before the first
inline Placements normalized(Placements placements, std::size_t ndim) {
  normalize_dims(placements, ndim);
  return placements;
}

/// The refusal of a placement that shards a dim which a tensor of `ndim` dims lacks.
Error no_such_dim(const Placement& placement, std::size_t ndim);

}  // namespace shardlab
