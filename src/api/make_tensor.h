// make_tensor.h - new tensors by the row of an op, for programs that have looked it up: the
// language, and recorded graphs. Programs in C++ have factories.h.
#pragma once

#include "mesh/dtensor.h"
#include "schema/argument.h"

namespace shardlab {

struct OpRow;

/// The tensor of a row without tensor arguments, arguments in schema order: on a mesh every rank
/// makes its piece, with placements as in Factory. Random rows draw from `generator`, without one
/// from the rank's own.
///   fails  Value: partial placements, or placements without a mesh. Runtime: a mesh that was not
///          constructed
DTensor make_tensor(const OpRow& row, const Arguments& args, const MeshLayout* mesh = nullptr,
                    const Placements& placements = {}, const Generator& generator = nullptr);

}  // namespace shardlab
