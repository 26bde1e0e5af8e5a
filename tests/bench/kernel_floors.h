// kernel_floors.h - loops that do the least a kernel could do: the same bytes through memory, or
// the same products through Eigen as the machine's caches want them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "tensor/tensor.h"

namespace shardlab {

/// Runs something once; holds its arguments.
using TimedWork = std::function<void()>;

/// Reads every element of `inputs` and writes as many bytes as `output` has, side by side, with
/// plain vector instructions: the cost of a sum of arrays that never waits for arithmetic. The
/// output has its own memory; inputs may be none.
TimedWork memory_floor(std::span<const Tensor> inputs, const Tensor& output);

/// A product of `batch` matrices of f32 or f64, rows x inner by inner x columns, by Eigen with the
/// cache sizes that it finds on this machine.
TimedWork eigen_floor(DType dtype, std::int64_t batch, std::int64_t rows, std::int64_t inner,
                      std::int64_t columns);

}  // namespace shardlab
