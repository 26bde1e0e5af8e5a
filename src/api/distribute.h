// distribute.h - making DTensors from whole values.
#pragma once

#include "mesh/dtensor.h"

namespace shardlab {

/// Places a plain tensor, equal on all ranks, on a mesh: each rank cuts its own piece, no
/// collective. A partial gives rank r a deterministic, unequal part whose reduction is the value
/// (scenarios/README.md section 2). Ranks outside the mesh get an empty local tensor (D-37).
DTensor distribute(const Tensor& value, const DTensorSpec* spec);
DTensor distribute(const DTensor& value, const DTensorSpec* spec);

/// The same dealing-out for a value whose pieces are in place already: `pieces` holds, on every
/// rank, its piece of the whole under `spec` with the partial mesh dims still replicated.
DTensor deal_partials(const DTensor& pieces, const DTensorSpec* spec);

/// On all ranks of the mesh: the tensor of the rank with this index on every mesh dim. Ranks
/// outside keep their own. Collective over the mesh; all pass tensors of one meta.
///   fails  Value: a mesh dim is not that long
Tensor value_of_source(const Tensor& value, const MeshLayout* mesh, std::int64_t index);

/// A local tensor as the piece that from_local takes, checked across ranks: all pass the same meta,
/// and along mesh dims of replicas all take the first rank's tensor. Collective over the mesh.
///   fails  Value: ranks pass different shapes, strides or dtypes
Tensor checked_piece(const Tensor& local, const MeshLayout* mesh, const Placements& placements);

}  // namespace shardlab
