// kernel_cases.h - the rows of kernel_bench.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/bench/kernel_floors.h"

namespace shardlab {

/// The floor that a row is compared with: a product, memory (of softmax and norms of f32, and of
/// bf16, by marks of their own), any other without a mark, or a loop over a small tensor.
enum class Floor { kProduct, kMemory, kRows, kHalfRows, kLoop, kSmallLoop };

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
