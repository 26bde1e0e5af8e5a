// Pointwise functions of one operand.
#include "backends/cuda/pointwise.h"

#include "backends/cuda/platform.cuh"

namespace shardlab::cuda {

Failure run_pointwise_one(Context& context, const PointwiseCall& call) {
  GpuPlatform platform(context);
  return run_functions<1, 1>(platform, call);
}

}  // namespace shardlab::cuda
