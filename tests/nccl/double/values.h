// values.h - computations of the double: sizes of NCCL's types, and sums, products, ... of arrays.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backends/nccl/api.h"

namespace shardlab::nccl_double {

/// 0 for a type that NCCL does not have.
std::size_t bytes_of(nccl::DataType type);
/// "ncclFloat32", "ncclSum".
std::string name_of(nccl::DataType type);
std::string name_of(nccl::RedOp op);

/// to[i] = inputs[0][i] op inputs[1][i] op ..., in rank order. 16-bit floats add up in f32 and
/// round once: one of the many orders and roundings that NCCL is free to take. max and min leave
/// NaN out, as NCCL's do. `to` may be one of the inputs.
void combine(nccl::DataType type, nccl::RedOp op, const std::vector<const void*>& inputs, void* to,
             std::size_t count);

}  // namespace shardlab::nccl_double
