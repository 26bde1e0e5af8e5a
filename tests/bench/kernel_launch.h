// kernel_launch.h - kernels called as the dispatcher would, and tensors for them, on the calling
// rank's device.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernel_id.h"
#include "tensor/device.h"
#include "tests/bench/kernel_cases.h"

namespace shardlab {

/// The device of the calling rank.
Device& device();

/// Numbers between -2 and 2 without order, the same in every run.
Tensor numbers(const Dims& shape, DType dtype = DType::kF32);
/// Whole numbers in [0, most), in i64.
Tensor indices(const Dims& shape, std::int64_t most);
/// Zeros.
Tensor output(const Dims& shape, DType dtype = DType::kF32);
/// The transpose of a matrix, as a view.
Tensor turned(const Tensor& matrix);

/// The tensors among the arguments.
std::vector<Tensor> tensors_of(const std::vector<LocalArg>& args);

/// A kernel with its arguments.
struct Launch {
  KernelId kernel;
  std::vector<LocalArg> args;
  std::vector<Tensor> outputs;

  void operator()() const;
};

/// Compared with reading its tensors and writing its first output.
KernelPair against_memory(Launch launch);

}  // namespace shardlab
