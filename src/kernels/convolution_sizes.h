// convolution_sizes.h - the sizes of a convolution over 1 to 3 spatial dims. For a gradient, too,
// input and output are those of the convolution itself.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/kernel_args.h"

namespace shardlab {

/// One number for each spatial dim; missing dims are first, of size 1.
using Spatial = std::array<std::int64_t, 3>;

/// Output o of a spatial dim reads input o stride - padding + k dilation by tap k; everything
/// outside of the input counts as zeros.
struct ConvolutionSizes {
  std::int64_t batch, groups, in_channels, out_channels;  ///< channels of one group
  Spatial input, kernel, output, stride, padding, dilation;
};

/// Of shapes [batch, channels, ..], weight [out channels, in channels of a group, ..], and the
/// numbers of the call.
ConvolutionSizes convolution_sizes(const KernelCall& call, const Dims& input, const Dims& weight,
                                   const Dims& output);

}  // namespace shardlab
