// resampling.h - the places that each result of upsampling or pooling reads: for the computation on
// the CPU and on GPUs. Pure functions of a call's numbers and shapes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_id.h"
#include "tensor/device.h"

namespace shardlab {

struct Tap {
  std::int64_t place;
  double weight;
};

/// The input of one result: the weighted sum of some places, over `divisor`.
struct Window {
  std::vector<Tap> taps;
  double divisor = 1;
};

/// One dim, of `source` places, becomes as many results as there are windows; a gradient flows from
/// them back to the places, with the same weights.
struct SampledDim {
  std::size_t dim;
  std::int64_t source;
  std::vector<Window> windows;
};

struct Resampling {
  enum class Direction { kForward, kBackward } direction;
  bool in_bytes = false;  ///< behind each dim the values are rounded to bytes, as in the reference
  std::vector<SampledDim> dims;  ///< in this order
};

/// A kernel of upsampling or mean pooling, which are linear and run dim by dim.
struct ResamplingKernel {
  KernelId id;
  /// Plans a call whose output has elements.
  Resampling (*plan)(const KernelCall& call);
};
std::span<const ResamplingKernel> resampling_kernels();

/// The places of one result along one dim, from `first` on in steps.
struct WindowSteps {
  std::int64_t first;
  std::int64_t last;  ///< beyond
  std::int64_t step;
};

/// The windows of pooling that takes the largest, along the last dims.
struct PoolWindows {
  bool by_plane = false;             ///< each plane has its own
  std::vector<WindowSteps> dims[3];  ///< [result] or [plane, result]; one of one place where unused
  std::int64_t in[3] = {1, 1, 1};    ///< sizes of the places and of the results, at the end
  std::int64_t out[3] = {1, 1, 1};
};

/// Windows of a kMaxPool, kAdaptiveMaxPool or kFractionalMaxPool whose output has elements; the
/// last one's `shifts` are the elements of its argument 3, which shift windows by plane.
PoolWindows pool_windows_of(const KernelCall& call, std::span<const double> shifts);

}  // namespace shardlab
