// half_runs.h - runs of f16 and bf16 to and from f32, in which they compute.
#pragma once

#include <cstdint>

#include "kernels/element_types.h"

namespace shardlab {

/// to[i] = from[i] for i in [0, count), neither overlapping. Numbers round to nearest even; all
/// NaNs of a sign become one.
void convert_half(float* to, const Half* from, std::int64_t count);
void convert_half(float* to, const BFloat16* from, std::int64_t count);
void convert_half(Half* to, const float* from, std::int64_t count);
void convert_half(BFloat16* to, const float* from, std::int64_t count);

}  // namespace shardlab
