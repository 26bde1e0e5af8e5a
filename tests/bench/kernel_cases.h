// kernel_cases.h - the rows of kernel_bench.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/bench/kernel_floors.h"

namespace shardlab {

/// The floor that a row is compared with.
enum class Floor { kProduct, kMemory, kRows, kLoop, kSmallLoop };

/// The same work by the library and by the floor.
struct KernelPair {
  TimedWork kernel;
  TimedWork floor;
};

struct KernelCase {
  std::string name;
  Floor floor;
  /// Called on a rank of a world, with a CPU device; the pair is used there, too.
  std::function<KernelPair()> make;
};

std::vector<KernelCase> kernel_cases();

}  // namespace shardlab
