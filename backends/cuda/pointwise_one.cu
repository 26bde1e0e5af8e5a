// Pointwise functions of one operand.
#include "backends/cuda/pointwise.h"

#include "backends/cuda/platform.cuh"

namespace shardlab::cuda {

Failure run_pointwise_one(GpuPlatform& platform, const PointwiseCall& call) {
  return run_functions<1, 1>(platform, call);
}

}  // namespace shardlab::cuda
