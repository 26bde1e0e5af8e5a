// terms.h - what each rank holds of a value that is pending. The reduction of all is the value, to
// the last bit, and terms of two inputs have nothing in common: which rank holds the largest of an
// element is another one from input to input.
#pragma once

#include "base/reduce_op.h"
#include "sim/proof/op_samples.h"
#include "tensor/tensor.h"

namespace shardlab {

/// The term of rank `index` of `count`. Terms of numbers that an op needs in (0, 1) lie there, too,
/// where they are pending by their largest or smallest. A pure function, equal on all ranks; the
/// tensor is on the rank's device.
Tensor term_of(const Tensor& whole, Fill fill, ReduceOp op, std::int64_t index, std::int64_t count,
               std::uint64_t seed);

}  // namespace shardlab
