// Patches of pictures, and pictures of patches, on the CPU: a row of outputs at a time.
#include <algorithm>

#include "kernels/cpu_loops.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

// Output positions [first, last) of one dim whose input position for tap `k` exists.
struct Window {
  std::int64_t first, last, shift;  // input = output * stride + shift
};
Window window(const ConvolutionSizes& g, std::size_t dim, std::int64_t k) {
  const std::int64_t stride = g.stride[dim], shift = k * g.dilation[dim] - g.padding[dim];
  const std::int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const std::int64_t room = g.input[dim] - 1 - shift;
  const std::int64_t last = room < 0 ? 0 : std::min(g.output[dim], room / stride + 1);
  return {std::min(first, g.output[dim]), std::clamp(first, last, g.output[dim]), shift};
}

// visit(place in the picture of the first element that exists, place in the patches of the row,
// window of elements that exist) for each tap and row of outputs.
template <typename Visit>
void for_each_line(const ConvolutionSizes& g, const Visit& visit) {
  const Window none{0, 0, 0};
  std::int64_t line = 0;
  const std::int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  for (std::int64_t tap = 0; tap < g.groups * g.in_channels * taps; ++tap) {
    const std::int64_t channel = tap / taps;
    const Window depth = window(g, 0, tap % taps / g.kernel[2] / g.kernel[1]);
    const Window height = window(g, 1, tap / g.kernel[2] % g.kernel[1]);
    const Window width = window(g, 2, tap % g.kernel[2]);
    for (std::int64_t z = 0; z < g.output[0]; ++z) {
      for (std::int64_t y = 0; y < g.output[1]; ++y, line += g.output[2]) {
        if (z < depth.first || z >= depth.last || y < height.first || y >= height.last ||
            width.first == width.last) {
          visit(std::int64_t{0}, line, none);
          continue;
        }
        const std::int64_t in_depth = channel * g.input[0] + z * g.stride[0] + depth.shift;
        const std::int64_t in_row = in_depth * g.input[1] + y * g.stride[1] + height.shift;
        visit(in_row * g.input[2] + width.first * g.stride[2] + width.shift, line, width);
      }
    }
  }
}

template <typename T>
void gather(const Patching& patching) {
  const ConvolutionSizes& g = patching.sizes;
  const RowMajor<T> input(patching.pictures);
  T* const patches = RowMajorOutput<T>(patching.patches).data();
  for_each_line(g, [&](std::int64_t from, std::int64_t to, const Window& columns) {
    T* const line = patches + to;
    std::fill_n(line, columns.first, T(0));
    std::fill(line + columns.last, line + g.output[2], T(0));
    const T* const source = input.data() + from;
    const std::int64_t stride = g.stride[2], count = columns.last - columns.first;
    if (stride == 1) {
      std::copy_n(source, count, line + columns.first);
    } else {
      for (std::int64_t i = 0; i < count; ++i) line[columns.first + i] = source[i * stride];
    }
  });
}

template <typename T>
void add(const Patching& patching) {
  const ConvolutionSizes& g = patching.sizes;
  const RowMajorOutput<T> pictures(patching.pictures);
  const RowMajor<T> patches(patching.patches);
  std::fill_n(pictures.data(), patching.pictures.numel(), T(0));
  for_each_line(g, [&](std::int64_t to, std::int64_t from, const Window& columns) {
    const T* const source = patches.data() + from + columns.first;
    T* const target = pictures.data() + to;
    const std::int64_t stride = g.stride[2], count = columns.last - columns.first;
    for (std::int64_t i = 0; i < count; ++i) {
      target[i * stride] = sum_of(target[i * stride], source[i]);
    }
  });
  pictures.store();
}

}  // namespace

void CpuLoops::gather_patches(const Patching& patching) {
  with_compute_type<kNoComplex>(patching.patches.dtype(),
                                [&](auto type) { gather<decltype(type)>(patching); });
}

void CpuLoops::add_patches(const Patching& patching) {
  with_compute_type<kNoComplex>(patching.patches.dtype(),
                                [&](auto type) { add<decltype(type)>(patching); });
}

}  // namespace shardlab
