// Weighted sums of places, and the largest of windows, as calls of the table: the places, found on
// the host, are copied to the device.
#include <algorithm>
#include <span>

#include "backends/cuda/table_loops.h"

namespace shardlab::cuda {

namespace {

template <typename T>
Tensor copied_in(Device& device, const std::vector<T>& values) {
  const Tensor made = empty(device, Dims{static_cast<std::int64_t>(values.size())}, dtype_of<T>());
  device.write(made, values.data());
  return made;
}
template <typename T>
const T* elements(const Tensor& tensor) {
  return tensor.numel() == 0 ? nullptr : static_cast<const T*>(readable(tensor));
}

}  // namespace

void TableLoops::sample(const Sampling& sampling) {
  if (sampling.to.numel() == 0) return;
  const Terms& terms = sampling.terms;
  const std::span<const std::int64_t> sizes = sampling.to.shape();
  const Tensor first = copied_in(device(), terms.first), place = copied_in(device(), terms.place);
  const Tensor weight = copied_in(device(), terms.weight), share = copied_in(device(), terms.share);
  const Tensor divisor = copied_in(device(), terms.divisor);
  SampleCall call{};
  call.outer = product(sizes.first(sampling.dim));
  call.places = sampling.from.size(sampling.dim);
  call.results = sizes[sampling.dim];
  call.inner = product(sizes.subspan(sampling.dim + 1));
  call.in_bytes = sampling.in_bytes;
  call.from = elements<double>(sampling.from);
  call.to = writable(sampling.to);
  call.first = elements<std::int64_t>(first);
  call.place = elements<std::int64_t>(place);
  call.weight = elements<double>(weight);
  call.share = elements<double>(share);
  call.divisor = elements<double>(divisor);
  issue(table_.sample, call, "weighted sums");
}

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
    for (const Steps& window : windows.dims[dim]) {
      numbers.insert(numbers.end(), {window.first, window.last, window.step});
    }
    steps[dim] = copied_in(device(), numbers);
    call.steps[dim] = elements<std::int64_t>(steps[dim]);
  }
  call.from = readable(largest.from);
  call.values = writable(largest.values);
  call.indices = static_cast<std::int64_t*>(writable(largest.places));
  issue(table_.largest, call, "the largest of windows");
}

}  // namespace shardlab::cuda
