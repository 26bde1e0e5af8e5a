// terms.h - the terms that ranks hold of a pending value. The reduction of all is the value, to the
// last bit, and terms of two inputs have nothing in common: the rank with the largest term of an
// element differs from input to input.
#pragma once

#include "base/reduce_op.h"
#include "sim/proof/op_samples.h"
#include "tensor/tensor.h"

namespace shardlab {

/// The term of rank `index` of `count`. For an op that needs numbers in (0, 1), terms pending by
/// their largest or smallest are in (0, 1), too. A pure function, equal on all ranks; the tensor is
/// on the rank's device.
Tensor term_of(const Tensor& whole, Fill fill, ReduceOp op, std::int64_t index, std::int64_t count,
               std::uint64_t seed);

}  // namespace shardlab
