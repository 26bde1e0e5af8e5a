// The largest of windows as calls of the table: their steps, found on the host, are copied to the
// device.
#include <algorithm>

#include "backends/cuda/table_loops.h"

namespace shardlab::cuda {

void TableLoops::largest(const Largest& largest) {
  const PoolWindows& windows = largest.windows;
  LargestCall call{};
  call.compute = largest.from.dtype();
  call.by_plane = windows.by_plane;
  std::ranges::copy(windows.in, call.in);
  std::ranges::copy(windows.out, call.out);
  call.planes = largest.values.numel() / (windows.out[0] * windows.out[1] * windows.out[2]);
  Tensor steps[3];
  for (std::size_t dim = 0; dim < 3; ++dim) {
    std::vector<std::int64_t> numbers;
    for (const WindowSteps& window : windows.dims[dim]) {
      numbers.insert(numbers.end(), {window.first, window.last, window.step});
    }
    steps[dim] = empty(device(), Dims{static_cast<std::int64_t>(numbers.size())}, DType::kI64);
    device().write(steps[dim], numbers.data());
    call.steps[dim] = static_cast<const std::int64_t*>(readable(steps[dim]));
  }
  call.from = readable(largest.from);
  call.values = writable(largest.values);
  call.indices = static_cast<std::int64_t*>(writable(largest.places));
  issue(table_.largest, call, "the largest of windows");
}

}  // namespace shardlab::cuda
