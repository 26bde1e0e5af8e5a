// Pointwise functions of two operands.
#include "backends/cuda/pointwise.h"

#include "backends/cuda/platform.cuh"

namespace shardlab::cuda {

Failure run_pointwise_two(GpuPlatform& platform, const PointwiseCall& call) {
  return run_functions<2, 2>(platform, call);
}

}  // namespace shardlab::cuda
