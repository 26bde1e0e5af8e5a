// kernel_cases.h - the rows of kernel_bench.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/bench/kernel_floors.h"

namespace shardlab {

/// What a row is held against.
enum class Floor { kProduct, kMemory, kRows, kLoop, kSmallLoop };

/// The same work by the library and by the floor.
struct KernelPair {
  TimedWork kernel;
  TimedWork floor;
};

struct KernelCase {
  std::string name;
  Floor floor;
  /// On a rank, as on_one_rank() makes one; there the pair is used, too.
  std::function<KernelPair()> make;
};

/// Of the floor's speed, or of small tensors the nanoseconds; 0: none is asked for.
double mark_of(const KernelCase& one);

std::vector<KernelCase> kernel_cases();

/// Runs `body` on the only rank of a world, on a CPU device.
void on_one_rank(const std::function<void()>& body);

}  // namespace shardlab
