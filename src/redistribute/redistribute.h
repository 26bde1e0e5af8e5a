// redistribute.h - changing placements. Plans are rank-invariant; the executor cuts
// bytes at this rank's coordinate.
#pragma once

#include "comm/device_mesh.h"
#include "mesh/dtensor.h"
#include "plan/plan.h"
#include "redistribute/options.h"

namespace shardlab {

/// Rare data that stays with a tensor. `mask`: of a mask partial (K-18), local, true where this
/// rank's term does not count; shaped like the lookup's index tensor.
struct TensorExtras {
  Tensor mask;
};

/// Runs the plan from `source` to `target` on this rank's piece. An empty plan returns the same
/// tensor; a rank outside the mesh gets its tensor back; size-1 mesh dims never
/// communicate (R-48, B-12). Never more memory than source + destination + one chunk.
/// Specs on two meshes: move_between.
///   fails  Runtime: pairs that can't be executed
Tensor redistribute_local(const Tensor& local, const DTensorSpec* source, const DTensorSpec* target,
                          const RedistributeOptions& options = {},
                          const TensorExtras* extras = nullptr);

/// The same on a handle, without autograd: a new handle, or `x` when nothing changes.
DTensor redistribute_tensor(const DTensor& x, const DTensorSpec* target,
                            const RedistributeOptions& options = {});

/// The spec in which the gradient of a redistribute from `forward_source` ends (R-73 as X-1): per
/// mesh dim, an incoming R or S against a partial source ends as R; the same partial stays; every
/// other dim takes the source's placement.
const DTensorSpec* gradient_target(const DTensorSpec* gradient, const DTensorSpec* forward_source);

}  // namespace shardlab
