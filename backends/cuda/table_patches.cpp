// Patches of pictures, and pictures of patches, as calls of the table.
#include <algorithm>

#include "backends/cuda/table_loops.h"

namespace shardlab::cuda {

namespace {

PatchCall patch_call(const Patching& patching) {
  const ConvolutionSizes& sizes = patching.sizes;
  const Tensor& pictures = patching.pictures;
  PatchCall call{};
  call.compute = patching.patches.dtype();
  call.samples = pictures.size(0);
  call.channels = sizes.groups * sizes.in_channels;
  std::ranges::copy(sizes.input, call.input);
  std::ranges::copy(sizes.kernel, call.kernel);
  std::ranges::copy(sizes.output, call.output);
  std::ranges::copy(sizes.stride, call.stride);
  std::ranges::copy(sizes.padding, call.padding);
  std::ranges::copy(sizes.dilation, call.dilation);
  call.pictures.dtype = pictures.dtype();
  call.patch_dtype = patching.patches.dtype();
  const Dims& stride = pictures.stride();
  call.pictures.stride[0] = stride[0];
  call.pictures.stride[1] = stride[1];
  for (std::size_t dim = 2; dim < stride.size(); ++dim) {
    call.pictures.stride[5 + dim - stride.size()] = stride[dim];
  }
  return call;
}

}  // namespace

void TableLoops::gather_patches(const Patching& patching) {
  PatchCall call = patch_call(patching);
  call.pictures.data = readable(patching.pictures);
  call.patches = writable(patching.patches);
  issue(table_.gather_patches, call, "patches");
}

void TableLoops::add_patches(const Patching& patching) {
  PatchCall call = patch_call(patching);
  call.pictures.data = writable(patching.pictures);
  call.patches = readable(patching.patches);
  issue(table_.add_patches, call, "sums of patches");
}

}  // namespace shardlab::cuda
