// Pointwise functors of one operand.
#include "backends/cuda/pointwise.h"

#include "backends/cuda/platform.cuh"

namespace shardlab::cuda {

Failure run_pointwise_one(Context& context, const PointwiseCall& call) {
  GpuPlatform platform(context);
  return run_one_operand(platform, call);
}

}  // namespace shardlab::cuda
