// native.h - the reductions that NCCL does itself, and in which form. All others are gathered and
// combined by the ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/nccl/api.h"
#include "base/dtype.h"
#include "base/reduce_op.h"

namespace shardlab::nccl {

/// A reduction as NCCL takes it: complex numbers are summed as pairs of real ones, and extrema of
/// floats taken of integers.
struct Native {
  DataType type;
  RedOp op;
  std::int64_t per_element;       ///< numbers of `type` in one element: 2 for complex
  std::optional<DType> stand_in;  ///< integers in place of the floats (shared/ordered.h)
};

/// None where NCCL has no such dtype (i16, sums of f8) or op (bit ops, product of complex). NaN
/// wins max and min.
std::optional<Native> native_reduction(DType dtype, ReduceOp op);

}  // namespace shardlab::nccl
