// Pointwise functions of three and four operands.
#include "backends/cuda/pointwise.h"

#include "backends/cuda/platform.cuh"

namespace shardlab::cuda {

Failure run_pointwise_more(Context& context, const PointwiseCall& call) {
  GpuPlatform platform(context);
  return run_functions<3, kMaxOperands>(platform, call);
}

}  // namespace shardlab::cuda
