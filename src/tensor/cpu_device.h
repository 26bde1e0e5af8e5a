// cpu_device.h - host memory and the CPU kernels. One object may serve all ranks of a process;
// thread-safe.
#pragma once

#include <memory>
#include <span>

#include "tensor/device.h"

namespace shardlab {

/// A CPU kernel. Reads and writes through KernelCall only.
using CpuKernel = void (*)(const KernelCall& call);

/// A device over host memory with this table (index = KernelId; null = no kernel).
std::unique_ptr<Device> make_cpu_device(std::span<const CpuKernel> kernels);

}  // namespace shardlab
