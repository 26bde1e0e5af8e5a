// matmul.h - products of tensors of any number of dims, as views around mm, mv, bmm and dot. The
// choice among them follows the reference step for step, because every step may move data.
#pragma once

#include "schema/calls.h"

namespace shardlab {

/// Broadcasts all dims but the last two (one dim: a row on the left, a column on the right).
///   fails   Value: a factor without dims; the refusals of the ops below
DTensor matmul(Calls& calls, const DTensor& left, const DTensor& right);

/// The tensor itself where its elements are in row-major order, else a copy with this order.
DTensor contiguous(Calls& calls, const DTensor& x);
/// A view where memory allows it, else a copy first (the reference's reshape).
DTensor reshape(Calls& calls, const DTensor& x, const Dims& sizes);
/// The same of a tensor in pieces too: gathered where its pieces are none of the result.
DTensor regrouped(Calls& calls, const DTensor& x, const Dims& sizes);

// Decompositions of rows in the view family's table.
Results decompose_contiguous(Calls& calls, const Arguments& args);
Results decompose_reshape(Calls& calls, const Arguments& args);

}  // namespace shardlab
