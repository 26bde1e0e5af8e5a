// half_runs.h - runs of f16 and bf16 to and from f32, in which they compute.
#pragma once

#include <cstdint>

#include "kernels/element_types.h"

namespace shardlab {

/// to[i] = from[i] for i in [0, count), neither overlapping. Numbers round to nearest even; of NaN
/// one stands for all of a sign.
struct HalfRuns {
  void (*widen_f16)(float* to, const Half* from, std::int64_t count);
  void (*widen_bf16)(float* to, const BFloat16* from, std::int64_t count);
  void (*narrow_f16)(Half* to, const float* from, std::int64_t count);
  void (*narrow_bf16)(BFloat16* to, const float* from, std::int64_t count);
};

/// Those of the copy of the kernels that asks.
HalfRuns own_half_runs();

}  // namespace shardlab
