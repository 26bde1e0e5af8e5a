// The largest of windows on the CPU.
#include "kernels/cpu_loops.h"
#include "kernels/largest_of_window.h"
#include "kernels/scratch.h"

namespace shardlab {

void CpuLoops::largest(const Largest& largest) {
  const PoolWindows& windows = largest.windows;
  const auto &in = windows.in, &to = windows.out;
  const auto steps_of = [&](int dim, std::int64_t result, std::int64_t plane) {
    const std::int64_t index = windows.by_plane ? plane * to[dim] + result : result;
    return windows.dims[dim][static_cast<std::size_t>(index)];
  };
  const std::int64_t places = in[0] * in[1] * in[2], results = to[0] * to[1] * to[2];
  with_compute_type<kNoComplex>(largest.from.dtype(), [&]<typename T>(T) {
    const RowMajor<T> from(largest.from);
    T* const values = RowMajorOutput<T>(largest.values).data();
    std::int64_t* const indices = RowMajorOutput<std::int64_t>(largest.places).data();
    for (std::int64_t n = 0; n < largest.values.numel(); ++n) {
      const std::int64_t r = n % results, plane = n / results;
      const T* x = from.data() + plane * places;
      const WindowSteps a = steps_of(0, r / (to[1] * to[2]), plane),
                        b = steps_of(1, r / to[2] % to[1], plane),
                        c = steps_of(2, r % to[2], plane);
      indices[n] = place_of_largest(x, in, a, b, c);
      values[n] = x[indices[n]];
    }
  });
}

}  // namespace shardlab
