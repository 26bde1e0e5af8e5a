// Sizes of the dims that are missing are 1; a list of one number holds for all dims.
#include "kernels/convolution_sizes.h"

namespace shardlab {

namespace {

Spatial spatial_sizes(const Dims& shape) {
  Spatial sizes = {1, 1, 1};
  for (std::size_t i = 2; i < shape.size(); ++i) sizes[3 + i - shape.size()] = shape[i];
  return sizes;
}

Spatial spatial_list(const KernelCall& call, std::size_t index, std::size_t count,
                     std::int64_t absent) {
  Spatial values = {absent, absent, absent};
  const Dims& given = *optional_dims_arg(call, index);
  for (std::size_t i = 0; i < count; ++i) {
    values[3 + i - count] = given[given.size() == 1 ? 0 : i];
  }
  return values;
}

}  // namespace

ConvolutionSizes convolution_sizes(const KernelCall& call, const Dims& input, const Dims& weight,
                                   const Dims& output) {
  const std::size_t count = input.size() - 2;
  ConvolutionSizes g{};
  g.batch = input[0];
  g.groups = int_arg(call, 5);
  g.in_channels = weight[1];
  g.out_channels = weight[0] / g.groups;
  g.input = spatial_sizes(input);
  g.kernel = spatial_sizes(weight);
  g.output = spatial_sizes(output);
  g.stride = spatial_list(call, 2, count, 1);
  g.padding = spatial_list(call, 3, count, 0);
  g.dilation = spatial_list(call, 4, count, 1);
  return g;
}

}  // namespace shardlab
