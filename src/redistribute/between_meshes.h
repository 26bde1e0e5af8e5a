// between_meshes.h - moves of values from one mesh to another: other views of the same
// ranks, parts of a mesh and the whole, other ranks. Each rank receives the elements that it lacks,
// once, from the nearest rank that holds them; it keeps those that it has.
//
// A mesh that was cut from others means all its parts: each holds the value, and a rank receives
// from its own part if it is in one.
#pragma once

#include "mesh/dtensor.h"
#include "redistribute/options.h"

namespace shardlab {

/// Moves `x`, whose spec is on another mesh than `target`. Collective over the ranks of both.
/// Pending reductions are made first, and those of the target last.
DTensor move_between(const DTensor& x, const DTensorSpec* target,
                     const RedistributeOptions& options);

/// The bytes that the rank that receives most receives; no plan moves fewer. Without pending
/// reductions, which are priced on their own mesh.
double bytes_between(const DTensorSpec& source, const DTensorSpec& target);

}  // namespace shardlab
