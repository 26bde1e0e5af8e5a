// resample_bodies.h - the largest of windows. One thread for each element that is written.
#pragma once

#include "backends/cuda/elements.h"
#include "kernels/largest_of_window.h"

namespace shardlab::cuda {

template <typename T>
struct LargestBody {
  LargestCall call;

  struct Window {
    std::int64_t first, last, step;
  };
  SHARDLAB_HD Window window(int dim, std::int64_t result, std::int64_t plane) const {
    const std::int64_t index = call.by_plane ? plane * call.out[dim] + result : result;
    const std::int64_t* steps = call.steps[dim] + 3 * index;
    return {steps[0], steps[1], steps[2]};
  }

  SHARDLAB_HD void operator()(std::int64_t n) const {
    const std::int64_t results = call.out[0] * call.out[1] * call.out[2];
    const std::int64_t r = n % results, plane = n / results;
    const T* x = static_cast<const T*>(call.from) + plane * call.in[0] * call.in[1] * call.in[2];
    const Window a = window(0, r / (call.out[1] * call.out[2]), plane);
    const Window b = window(1, r / call.out[2] % call.out[1], plane);
    const Window c = window(2, r % call.out[2], plane);
    const std::int64_t best = place_of_largest(x, call.in, a, b, c);
    static_cast<T*>(call.values)[n] = x[best];
    call.indices[n] = best;
  }
};

template <typename Platform>
Failure run_largest(Platform& platform, const LargestCall& call) {
  const std::int64_t count = call.planes * call.out[0] * call.out[1] * call.out[2];
  return run_elements<LargestBody>(platform, call, count, "nothing is pooled in this dtype");
}

}  // namespace shardlab::cuda
