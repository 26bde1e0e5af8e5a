// cpu_kernels.h - the CPU device's table of kernels.
#pragma once

#include <span>

#include "tensor/cpu_device.h"

namespace shardlab {

/// Index = KernelId; null where there is none. Lives as long as the program; thread-safe.
std::span<const CpuKernel> cpu_kernel_table();

}  // namespace shardlab
