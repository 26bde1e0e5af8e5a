// Resampling and pooling of the last dims, with the places of resampling.h.
#include "kernels/resampling.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/functors.h"
#include "kernels/kernel_table.h"
#include "kernels/largest_of_window.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

using Direction = Resampling::Direction;

// A value that is resampled dim by dim, in f64. The parts of complex numbers are along one more.
class Grid {
 public:
  explicit Grid(const Tensor& tensor)
      : shape_(tensor.shape()), dtype_(is_complex(tensor.dtype()) ? DType::kC128 : DType::kF64) {
    if (is_complex(dtype_)) shape_.push_back(2);
    values_.resize(static_cast<std::size_t>(product(shape_)));
    load_row_major(values_.data(), dtype_, tensor);
  }

  // Forward: the dim becomes the windows' results; backward: these become the places again.
  void sample(const SampledDim& sampled, Direction direction) {
    const std::size_t dim = sampled.dim;
    const auto results = static_cast<std::int64_t>(sampled.windows.size());
    const bool forward = direction == Direction::kForward;
    const std::int64_t from = forward ? sampled.source : results;
    const std::int64_t to = forward ? results : sampled.source;
    const std::span<const std::int64_t> sizes = shape_;
    const std::int64_t outer = product(sizes.first(dim)), inner = product(sizes.subspan(dim + 1));
    std::vector<double> made(static_cast<std::size_t>(outer * to * inner), 0);
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t r = 0; r < results; ++r) {
        const Window& window = sampled.windows[static_cast<std::size_t>(r)];
        for (const Tap& tap : window.taps) {
          const double* in = values_.data() + (o * from + (forward ? tap.place : r)) * inner;
          double* out = made.data() + (o * to + (forward ? r : tap.place)) * inner;
          if (forward) {
            for (std::int64_t k = 0; k < inner; ++k) out[k] += tap.weight * in[k];
          } else {
            for (std::int64_t k = 0; k < inner; ++k) out[k] += tap.weight * in[k] / window.divisor;
          }
        }
        if (!forward || window.divisor == 1) continue;
        double* out = made.data() + (o * to + r) * inner;
        for (std::int64_t k = 0; k < inner; ++k) out[k] /= window.divisor;
      }
    }
    values_ = std::move(made);
    shape_[dim] = to;
  }
  // Between two dims pixels are bytes again, as in the reference.
  void round_to_bytes() {
    for (double& value : values_) value = std::clamp(std::floor(value + 0.5), 0.0, 255.0);
  }
  void store(const Tensor& out) const { store_row_major(out, values_.data(), dtype_); }

 private:
  Dims shape_;
  DType dtype_;
  std::vector<double> values_;
};

void resample_kernel(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return;
  const Resampling resampling = resampling_of(call);
  Grid grid(tensor_arg(call, 0));
  for (const SampledDim& sampled : resampling.dims) {
    grid.sample(sampled, resampling.direction);
    if (resampling.in_bytes) grid.round_to_bytes();
  }
  grid.store(call.outputs[0]);
}

// The largest in each window, and its place in its plane, counted row-major; NaN wins, else the
// first.
template <typename T>
void largest_in_windows(const KernelCall& call, const PoolWindows& windows) {
  const RowMajor<T> from(tensor_arg(call, 0));
  const RowMajorOutput<T> values(call.outputs[0]);
  const RowMajorOutput<std::int64_t> indices(call.outputs[1]);
  const auto& in = windows.in;
  const auto& to = windows.out;
  const auto steps_of = [&](int dim, std::int64_t result, std::int64_t plane) {
    const std::int64_t index = windows.by_plane ? plane * to[dim] + result : result;
    return windows.dims[dim][static_cast<std::size_t>(index)];
  };
  const std::int64_t places = in[0] * in[1] * in[2], results = to[0] * to[1] * to[2];
  for (std::int64_t n = 0; n < call.outputs[0].numel(); ++n) {
    const std::int64_t r = n % results, plane = n / results;
    const T* x = from.data() + plane * places;
    const Steps a = steps_of(0, r / (to[1] * to[2]), plane),
                b = steps_of(1, r / to[2] % to[1], plane), c = steps_of(2, r % to[2], plane);
    const std::int64_t best = place_of_largest(x, in, a, b, c);
    values.data()[n] = x[best];
    indices.data()[n] = best;
  }
  values.store();
  indices.store();
}

void largest_kernel(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return;
  std::vector<double> shifts;
  if (const int index = shifting_argument(call.kernel); index >= 0) {
    const Tensor& numbers = tensor_arg(call, static_cast<std::size_t>(index));
    shifts.resize(static_cast<std::size_t>(numbers.numel()));
    load_row_major(shifts.data(), DType::kF64, numbers);
  }
  const PoolWindows windows = pool_windows_of(call, shifts);
  const auto run = [&](auto type) { largest_in_windows<decltype(type)>(call, windows); };
  const DType dtype = tensor_arg(call, 0).dtype();
  if (call.kernel == KernelId::kMaxPool) return with_compute_type<kNoComplex>(dtype, run);
  with_compute_type<kRealKind>(dtype, run);
}

}  // namespace

void add_resample_kernels(KernelTable& table) {
  for (const KernelId id : resampling_kernels()) table.set(id, resample_kernel);
  for (const KernelId id : largest_kernels()) table.set(id, largest_kernel);
}

}  // namespace shardlab
