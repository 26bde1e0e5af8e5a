// grid_sample.h - common parts of kernels that sample by a grid.
#pragma once

#include <cstdint>

#include "kernels/kernel_args.h"

namespace shardlab {

/// ATen's numbers of interpolation_mode and padding_mode.
enum class Between : std::int64_t { kLinear = 0, kNearest = 1, kCubic = 2 };
enum class Outside : std::int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

/// A place that is beyond the input.
inline constexpr std::int64_t kNowhere = -1;

/// grid_sampler_2d of f16 or bf16, rounded after each step (grid_sample_half.cpp).
void sample_half_planes(const KernelCall& call);

}  // namespace shardlab
