// native.h - which reductions NCCL does itself, and as what. All others are gathered and combined
// by the ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/nccl/api.h"
#include "base/dtype.h"
#include "base/reduce_op.h"

namespace shardlab::nccl {

/// A reduction as NCCL takes it: complex numbers are summed as pairs of real ones.
struct Native {
  DataType type;
  RedOp op;
  std::int64_t per_element;  ///< numbers of `type` in one element: 2 for complex
};

/// None where NCCL has no such dtype (i16, f8) or op (bit ops, product of complex), and for max and
/// min of floats: NCCL's leave NaN out, ours let it win.
std::optional<Native> native_reduction(DType dtype, ReduceOp op);

}  // namespace shardlab::nccl
