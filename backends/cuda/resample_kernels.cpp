// Upsampling and pooling. The places that a result reads are found on the host, as for the CPU
// (kernels/resampling.h), and copied to the device; the sums are of f64, dim by dim.
#include "kernels/resampling.h"

#include <algorithm>
#include <span>

#include "backends/cuda/kernels.h"
#include "base/fix.h"

namespace shardlab::cuda {

namespace {

using Direction = Resampling::Direction;

template <typename T>
Tensor copied_in(Ops& ops, const std::vector<T>& values) {
  const Tensor made =
      empty(ops.device(), Dims{static_cast<std::int64_t>(values.size())}, dtype_of<T>());
  ops.device().write(made, values.data());
  return made;
}
template <typename T>
const T* elements(const Tensor& tensor) {
  return tensor.numel() == 0 ? nullptr : static_cast<const T*>(readable(tensor));
}

// The terms of each result, one behind the other.
struct Terms {
  std::vector<std::int64_t> first{0};
  std::vector<std::int64_t> place;
  std::vector<double> weight, share;
  std::vector<double> divisor;

  void add(std::int64_t from, double times, double over) {
    place.push_back(from);
    weight.push_back(times);
    share.push_back(over);
  }
  void end_result(double over) {
    first.push_back(static_cast<std::int64_t>(place.size()));
    divisor.push_back(over);
  }
};

Terms forward_terms(const SampledDim& sampled) {
  Terms terms;
  for (const Window& window : sampled.windows) {
    for (const Tap& tap : window.taps) terms.add(tap.place, tap.weight, 1);
    terms.end_result(window.divisor);
  }
  return terms;
}

// A gradient flows to each place from the windows that read it, in their order.
Terms backward_terms(const SampledDim& sampled) {
  struct Reader {
    std::int64_t result;
    double weight;
    double divisor;
  };
  std::vector<std::vector<Reader>> readers(static_cast<std::size_t>(sampled.source));
  for (std::size_t r = 0; r < sampled.windows.size(); ++r) {
    const Window& window = sampled.windows[r];
    for (const Tap& tap : window.taps) {
      readers[static_cast<std::size_t>(tap.place)].push_back(
          {static_cast<std::int64_t>(r), tap.weight, window.divisor});
    }
  }
  Terms terms;
  for (const std::vector<Reader>& place : readers) {
    for (const Reader& reader : place) terms.add(reader.result, reader.weight, reader.divisor);
    terms.end_result(1);
  }
  return terms;
}

// Row-major values of f64 with the dim resampled.
Tensor sampled_along(Ops& ops, const Tensor& values, const SampledDim& sampled,
                     const Resampling& resampling) {
  const bool forward = resampling.direction == Direction::kForward;
  const Terms terms = forward ? forward_terms(sampled) : backward_terms(sampled);
  Dims shape = values.shape();
  SampleCall call{};
  const std::span<const std::int64_t> sizes = shape;
  call.outer = product(sizes.first(sampled.dim));
  call.inner = product(sizes.subspan(sampled.dim + 1));
  call.places = shape[sampled.dim];
  call.results = shape[sampled.dim] = static_cast<std::int64_t>(terms.divisor.size());
  call.in_bytes = resampling.in_bytes;
  const Tensor made = empty(ops.device(), shape, DType::kF64);
  if (made.numel() == 0) return made;
  const Tensor first = copied_in(ops, terms.first), place = copied_in(ops, terms.place);
  const Tensor weight = copied_in(ops, terms.weight), share = copied_in(ops, terms.share);
  const Tensor divisor = copied_in(ops, terms.divisor);
  call.from = elements<double>(values);
  call.to = writable(made);
  call.first = elements<std::int64_t>(first);
  call.place = elements<std::int64_t>(place);
  call.weight = elements<double>(weight);
  call.share = elements<double>(share);
  call.divisor = elements<double>(divisor);
  ops.sample(call);
  return made;
}

void resample(Ops& ops, const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  compute_dtype_here(self.dtype());
  if (out.numel() == 0) return;
  const Resampling resampling = resampling_of(call);
  Tensor values = as_contiguous(ops, self, DType::kF64);
  for (const SampledDim& sampled : resampling.dims) {
    values = sampled_along(ops, values, sampled, resampling);
  }
  convert(ops, out, values);
}

// Pooling that takes the largest, with indices.
void largest(Ops& ops, const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  const DType compute = compute_dtype_here(self.dtype());
  if (out.numel() == 0) return;
  std::vector<double> shifts;
  if (const int index = shifting_argument(call.kernel); index >= 0) {
    const Tensor& numbers = tensor_arg(call, static_cast<std::size_t>(index));
    shifts.resize(static_cast<std::size_t>(numbers.numel()));
    ops.device().read(as_contiguous(ops, numbers, DType::kF64), shifts.data());
  }
  const PoolWindows windows = pool_windows_of(call, shifts);
  const Tensor from = as_contiguous(ops, self, compute);
  const Tensor values = empty(ops.device(), out.shape(), compute);
  const Tensor indices = empty(ops.device(), out.shape(), DType::kI64);
  LargestCall largest{};
  largest.compute = compute;
  largest.by_plane = windows.by_plane;
  std::ranges::copy(windows.in, largest.in);
  std::ranges::copy(windows.out, largest.out);
  largest.planes = out.numel() / (windows.out[0] * windows.out[1] * windows.out[2]);
  Tensor steps[3];
  for (std::size_t dim = 0; dim < 3; ++dim) {
    std::vector<std::int64_t> numbers;
    for (const Steps& window : windows.dims[dim]) {
      numbers.insert(numbers.end(), {window.first, window.last, window.step});
    }
    steps[dim] = copied_in(ops, numbers);
    largest.steps[dim] = elements<std::int64_t>(steps[dim]);
  }
  largest.from = readable(from);
  largest.values = writable(values);
  largest.indices = static_cast<std::int64_t*>(writable(indices));
  ops.largest(largest);
  convert(ops, out, values);
  convert(ops, call.outputs[1], indices);
}

}  // namespace

void add_resample_kernels(CudaKernelTable& table) {
  for (const KernelId id : resampling_kernels()) table.set(id, resample);
  for (const KernelId id : largest_kernels()) table.set(id, largest);
}

}  // namespace shardlab::cuda
