// cpu_device.h - host memory and the CPU kernels. One object may serve all ranks of a process;
// thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "tensor/device.h"

namespace shardlab {

/// A CPU kernel. Reads and writes through KernelCall only.
using CpuKernel = void (*)(const KernelCall& call);

/// A device over host memory with this table (index = KernelId; null = no kernel). Allocating more
/// than about `most_bytes` in all fails with Runtime, before the system ends the process for it.
std::unique_ptr<Device> make_cpu_device(
    std::span<const CpuKernel> kernels,
    std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max());

}  // namespace shardlab
