// convolution_bodies.h - patches of pictures, and pictures of patches: they make matrix products of
// convolutions and their gradients. One thread for each element that is written.
#pragma once

#include "backends/cuda/elements.h"

namespace shardlab::cuda {

/// A place in the spatial dims.
struct Spot {
  std::int64_t at[3];
};

/// The innermost place of a row-major index over [.., sizes]; the rest counts the dims before.
SHARDLAB_HD inline Spot split_off(std::int64_t& index, const std::int64_t (&sizes)[3]) {
  Spot spot{};
  for (int dim = 2; dim >= 0; --dim) {
    spot.at[dim] = index % sizes[dim];
    index /= sizes[dim];
  }
  return spot;
}

template <typename T>
struct GatherPatchesBody {
  PatchCall call;
  SHARDLAB_HD void operator()(std::int64_t i) const {
    std::int64_t rest = i;
    const Spot output = split_off(rest, call.output);
    const std::int64_t sample = rest % call.samples;
    rest /= call.samples;
    const Spot tap = split_off(rest, call.kernel);
    const std::int64_t channel = rest;
    std::int64_t from = sample * call.pictures.stride[0] + channel * call.pictures.stride[1];
    bool inside = true;
    for (int dim = 0; dim < 3; ++dim) {
      const std::int64_t input =
          output.at[dim] * call.stride[dim] - call.padding[dim] + tap.at[dim] * call.dilation[dim];
      inside = inside && input >= 0 && input < call.input[dim];
      from += input * call.pictures.stride[2 + dim];
    }
    const T value = inside ? load<T>(call.pictures.data, call.pictures.dtype, from) : T(0);
    store<T>(call.patches, call.patch_dtype, i, value);
  }
};

template <typename T>
struct AddPatchesBody {
  PatchCall call;

  /// The output for which tap k reads this input of a spatial dim, or -1.
  SHARDLAB_HD std::int64_t output_of(int dim, std::int64_t input, std::int64_t k) const {
    const std::int64_t steps = input + call.padding[dim] - k * call.dilation[dim];
    if (steps < 0 || steps % call.stride[dim] != 0) return -1;
    const std::int64_t output = steps / call.stride[dim];
    return output < call.output[dim] ? output : -1;
  }

  SHARDLAB_HD void operator()(std::int64_t i) const {
    std::int64_t rest = i;
    const Spot input = split_off(rest, call.input);
    const std::int64_t channel = rest % call.channels, sample = rest / call.channels;
    T sum(0);
    for (std::int64_t depth = 0; depth < call.kernel[0]; ++depth) {
      const std::int64_t z = output_of(0, input.at[0], depth);
      for (std::int64_t row = 0; z >= 0 && row < call.kernel[1]; ++row) {
        const std::int64_t y = output_of(1, input.at[1], row);
        for (std::int64_t column = 0; y >= 0 && column < call.kernel[2]; ++column) {
          const std::int64_t x = output_of(2, input.at[2], column);
          if (x < 0) continue;
          const std::int64_t tap =
              ((channel * call.kernel[0] + depth) * call.kernel[1] + row) * call.kernel[2] + column;
          const std::int64_t plane = tap * call.samples + sample;
          const std::int64_t at =
              ((plane * call.output[0] + z) * call.output[1] + y) * call.output[2] + x;
          sum = sum_of(sum, load<T>(call.patches, call.patch_dtype, at));
        }
      }
    }
    std::int64_t to = sample * call.pictures.stride[0] + channel * call.pictures.stride[1];
    for (int dim = 0; dim < 3; ++dim) to += input.at[dim] * call.pictures.stride[2 + dim];
    store<T>(call.pictures.data, call.pictures.dtype, to, sum);
  }
};

inline constexpr const char* kNoPatches = "nothing is convolved in this dtype";

template <typename Platform>
Failure run_gather_patches(Platform& platform, const PatchCall& call) {
  std::int64_t count = call.samples * call.channels;
  for (int dim = 0; dim < 3; ++dim) count *= call.kernel[dim] * call.output[dim];
  return run_elements<GatherPatchesBody>(platform, call, count, kNoPatches);
}

template <typename Platform>
Failure run_add_patches(Platform& platform, const PatchCall& call) {
  std::int64_t count = call.samples * call.channels;
  for (int dim = 0; dim < 3; ++dim) count *= call.input[dim];
  return run_elements<AddPatchesBody>(platform, call, count, kNoPatches);
}

}  // namespace shardlab::cuda
