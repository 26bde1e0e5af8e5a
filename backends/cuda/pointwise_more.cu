// Pointwise functions of three and four operands.
#include "backends/cuda/pointwise.h"

#include "backends/cuda/platform.cuh"

namespace shardlab::cuda {

Failure run_pointwise_more(GpuPlatform& platform, const PointwiseCall& call) {
  return run_functions<3, kMaxOperands>(platform, call);
}

}  // namespace shardlab::cuda
