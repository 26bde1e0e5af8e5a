// Resampling and pooling of the last dims. Upsampling and mean pooling are linear and go dim by
// dim: per dim, each result is a weighted sum of some places, and the gradient sends it back to
// them with the same weights. The largest of a window is found in all dims at once.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/functors.h"
#include "kernels/kernel_table.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

struct Tap {
  std::int64_t place;
  double weight;
};

// Where one result comes from.
struct Window {
  std::vector<Tap> taps;
  double divisor = 1;
};

// Per result of a dim; the dim it comes from has `source` places.
struct Sampling {
  std::int64_t source = 0;
  std::vector<Window> windows;
};

// How a dim is scaled: from `source` to `target` places.
struct Scaling {
  std::int64_t source;
  std::int64_t target;
  bool align_corners;
  double given;  ///< factor; 0: from the sizes

  double step() const {
    const auto from = static_cast<double>(source), to = static_cast<double>(target);
    if (align_corners) return target > 1 ? (from - 1) / (to - 1) : 0;
    return given > 0 ? 1 / given : from / to;
  }
  // The place, between two, that a result stands for.
  double place(std::int64_t result) const {
    const auto i = static_cast<double>(result);
    return align_corners ? step() * i : step() * (i + 0.5) - 0.5;
  }
  std::int64_t clamped(std::int64_t place) const {
    return std::clamp<std::int64_t>(place, 0, source - 1);
  }
};

// Places are counted in f32, as in the reference.
template <bool middle>
struct Nearest {
  static Window window(const Scaling& scaling, std::int64_t result) {
    const auto step = static_cast<float>(scaling.step());
    const float at = (static_cast<float>(result) + (middle ? 0.5F : 0.0F)) * step;
    return {{{scaling.clamped(static_cast<std::int64_t>(std::floor(at))), 1}}};
  }
};

struct Linear {
  static Window window(const Scaling& scaling, std::int64_t result) {
    const double at = std::max(scaling.place(result), 0.0);
    const std::int64_t low = scaling.clamped(static_cast<std::int64_t>(at));
    const double share = low + 1 < scaling.source ? at - static_cast<double>(low) : 0;
    return {{{low, 1 - share}, {scaling.clamped(low + 1), share}}};
  }
};

double cubic_weight(double distance, double a) {
  const double x = std::abs(distance);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

struct Cubic {
  static Window window(const Scaling& scaling, std::int64_t result) {
    const double at = scaling.place(result);
    const auto low = static_cast<std::int64_t>(std::floor(at));
    Window window;
    for (std::int64_t place = low - 1; place <= low + 2; ++place) {
      const double weight = cubic_weight(at - static_cast<double>(place), -0.75);
      window.taps.push_back({scaling.clamped(place), weight});
    }
    return window;
  }
};

double sinc(double x) {
  const double angle = std::numbers::pi * x;
  return x == 0 ? 1 : std::sin(angle) / angle;
}

struct Triangle {
  static constexpr double kReach = 1;
  static double weight(double x) { return std::max(1 - std::abs(x), 0.0); }
};
struct Keys {
  static constexpr double kReach = 2;
  static double weight(double x) { return cubic_weight(x, -0.5); }
};
struct Lanczos {
  static constexpr double kReach = 3;
  static double weight(double x) { return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0; }
};

// Where places are left out, their neighbours are averaged with the filter widened.
template <typename Filter>
struct Smoothed {
  static Window window(const Scaling& scaling, std::int64_t result) {
    const double step = scaling.step(), width = std::max(step, 1.0);
    const double reach = Filter::kReach * width;
    const double center = step * (static_cast<double>(result) + 0.5);
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(center - reach + 0.5), 0);
    const auto last = std::min(static_cast<std::int64_t>(center + reach + 0.5), scaling.source);
    Window window;
    window.divisor = 0;
    for (std::int64_t place = first; place < last; ++place) {
      const double weight = Filter::weight((static_cast<double>(place) - center + 0.5) / width);
      window.taps.push_back({place, weight});
      window.divisor += weight;
    }
    if (window.divisor == 0) window.divisor = 1;
    return window;
  }
};

enum class Direction { kForward, kBackward };

// A value that is resampled dim by dim, in f64.
class Grid {
 public:
  explicit Grid(const Tensor& tensor)
      : shape_(tensor.shape()), values_(static_cast<std::size_t>(tensor.numel())) {
    load_row_major(values_.data(), DType::kF64, tensor);
  }

  // Forward: dim `dim` becomes the windows' results; backward: these become the places again.
  void sample(std::size_t dim, const Sampling& sampling, Direction direction) {
    const auto results = static_cast<std::int64_t>(sampling.windows.size());
    const bool forward = direction == Direction::kForward;
    const std::int64_t from = forward ? sampling.source : results;
    const std::int64_t to = forward ? results : sampling.source;
    const std::int64_t outer = product(shape_, 0, dim);
    const std::int64_t inner = product(shape_, dim + 1, shape_.size());
    std::vector<double> made(static_cast<std::size_t>(outer * to * inner), 0);
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t r = 0; r < results; ++r) {
        const Window& window = sampling.windows[static_cast<std::size_t>(r)];
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
  void store(const Tensor& out) const { store_row_major(out, values_.data(), DType::kF64); }

 private:
  static std::int64_t product(const Dims& shape, std::size_t first, std::size_t last) {
    std::int64_t result = 1;
    for (std::size_t d = first; d < last; ++d) result *= shape[d];
    return result;
  }

  Dims shape_;
  std::vector<double> values_;
};

double optional_number(const KernelCall& call, std::size_t index) {
  const Scalar* number = optional_scalar_arg(call, index);
  return number == nullptr ? 0 : number->to_double();
}

// upsample..(self, output_size, [align_corners], scales..), and with the gradient for self and
// input_size behind output_size.
template <typename Filter, bool aligns, Direction direction>
void upsample_kernel(const KernelCall& call) {
  const bool forward = direction == Direction::kForward;
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  if (out.numel() == 0) return;
  const Dims& sizes = *optional_dims_arg(call, 1);
  std::size_t next = forward ? 2 : 3;
  const bool align_corners = aligns && scalar_arg(call, next).to_bool();
  if (aligns) ++next;
  Grid grid(self);
  const std::size_t first = self.shape().size() - sizes.size();
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const std::int64_t source = (forward ? self : out).size(first + i);
    const Scaling scaling{source, sizes[i], align_corners, optional_number(call, next + i)};
    Sampling sampling{source, {}};
    for (std::int64_t r = 0; r < sizes[i]; ++r) {
      sampling.windows.push_back(Filter::window(scaling, r));
    }
    grid.sample(first + i, sampling, direction);
    if (out.dtype() == DType::kU8) grid.round_to_bytes();
  }
  grid.store(out);
}

// A list of one number per pooled dim, where one may stand for all and none for `fallback`.
class PerDim {
 public:
  PerDim(const KernelCall& call, std::size_t index, const Dims& fallback)
      : given_(optional_dims_arg(call, index)), fallback_(fallback) {}
  std::int64_t operator[](std::size_t i) const {
    if (given_ == nullptr || given_->empty()) return fallback_[i];
    return (*given_)[std::min(i, given_->size() - 1)];
  }

 private:
  const Dims* given_;
  Dims fallback_;
};

// How many of the last dims are pooled: one number may stand for all of them. Of three dims it is
// two where the first of these changes.
std::size_t pooled_dims(const Tensor& in, const Tensor& out, const Dims& sizes) {
  const std::size_t ndim = in.shape().size();
  if (sizes.size() != 1 || ndim < 3) return sizes.size();
  return ndim > 3 || in.size(1) != out.size(1) ? std::max<std::size_t>(ndim - 2, 2) : 1;
}

// Places [first, last) that adaptive pooling gives to a result.
struct Range {
  std::int64_t first;
  std::int64_t last;
};
Range adaptive_range(std::int64_t result, std::int64_t source, std::int64_t target) {
  return {result * source / target, ((result + 1) * source + target - 1) / target};
}

void add_places(Window& window, Range range) {
  for (std::int64_t place = range.first; place < range.last; ++place) {
    window.taps.push_back({place, 1});
  }
}

// avg_pool..(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override),
// for the gradient with self behind it.
template <Direction direction>
void avg_pool_kernel(const KernelCall& call) {
  const bool forward = direction == Direction::kForward;
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  if (out.numel() == 0) return;
  const std::size_t shift = forward ? 1 : 2;
  const Dims& sizes = *optional_dims_arg(call, shift);
  const PerDim kernel(call, shift, sizes), padding(call, shift + 2, Dims(3, 0));
  const std::size_t count = pooled_dims(self, out, sizes);
  const Dims whole{kernel[0], kernel[count > 1 ? 1 : 0], kernel[count > 2 ? 2 : 0]};
  const PerDim stride(call, shift + 1, whole);
  const bool padded = scalar_arg(call, shift + 4).to_bool();
  const double divisor = call.args.size() > shift + 5 ? optional_number(call, shift + 5) : 0;
  Grid grid(self);
  const std::size_t first = self.shape().size() - count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t source = (forward ? self : out).size(first + i);
    const std::int64_t target = (forward ? out : self).size(first + i);
    Sampling sampling{source, {}};
    for (std::int64_t r = 0; r < target; ++r) {
      const std::int64_t start = r * stride[i] - padding[i];
      const std::int64_t end = std::min(start + kernel[i], source + padding[i]);
      const Range inside{std::max<std::int64_t>(start, 0), std::min(end, source)};
      const std::int64_t counted = padded ? end - start : inside.last - inside.first;
      Window window;
      add_places(window, inside);
      window.divisor = divisor != 0 ? (i == 0 ? divisor : 1)
                                    : static_cast<double>(std::max<std::int64_t>(counted, 1));
      sampling.windows.push_back(std::move(window));
    }
    grid.sample(first + i, sampling, direction);
  }
  grid.store(out);
}

// adaptive_avg_pool..(self, output_size), gradient (grad_output, self): the same along dims that
// keep their size.
template <Direction direction>
void adaptive_avg_pool_kernel(const KernelCall& call) {
  const bool forward = direction == Direction::kForward;
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  if (out.numel() == 0) return;
  Grid grid(self);
  for (std::size_t d = 0; d < self.shape().size(); ++d) {
    const std::int64_t source = (forward ? self : out).size(d);
    const std::int64_t target = (forward ? out : self).size(d);
    if (source == target) continue;
    Sampling sampling{source, {}};
    for (std::int64_t r = 0; r < target; ++r) {
      const Range range = adaptive_range(r, source, target);
      Window window{{}, static_cast<double>(range.last - range.first)};
      add_places(window, range);
      sampling.windows.push_back(std::move(window));
    }
    grid.sample(d, sampling, direction);
  }
  grid.store(out);
}

// The places of one result along one dim, from `first` on in steps.
struct Steps {
  std::int64_t first;
  std::int64_t last;  ///< beyond
  std::int64_t step;
};

// The largest in windows of up to three dims, and where it lies within them, counted row-major; NaN
// wins, else the first. `steps(i, r, n)` are the places of result r along pooled dim i of plane n.
template <typename T, typename StepsOf>
void largest_in_windows(const KernelCall& call, std::size_t pooled, StepsOf steps) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  if (out.numel() == 0) return;
  const RowMajor<T> from(self);
  RowMajorOutput<T> values(out);
  RowMajorOutput<std::int64_t> indices(call.outputs[1]);
  std::int64_t in[3] = {1, 1, 1}, to[3] = {1, 1, 1};
  for (std::size_t i = 0; i < pooled; ++i) {
    in[3 - pooled + i] = self.size(self.shape().size() - pooled + i);
    to[3 - pooled + i] = out.size(self.shape().size() - pooled + i);
  }
  const auto steps_of = [&](std::size_t i, std::int64_t r, std::int64_t plane) {
    return i + pooled < 3 ? Steps{0, 1, 1} : steps(i + pooled - 3, r, plane);
  };
  const std::int64_t places = in[0] * in[1] * in[2], results = to[0] * to[1] * to[2];
  const std::int64_t outer = results == 0 ? 0 : out.numel() / results;
  for (std::int64_t n = 0; n < outer * results; ++n) {
    const std::int64_t r = n % results, plane = n / results;
    const T* x = from.data() + plane * places;
    const Steps a = steps_of(0, r / (to[1] * to[2]), plane),
                b = steps_of(1, r / to[2] % to[1], plane), c = steps_of(2, r % to[2], plane);
    std::int64_t best = (a.first * in[1] + b.first) * in[2] + c.first;
    for (std::int64_t i = a.first; i < a.last; i += a.step) {
      for (std::int64_t j = b.first; j < b.last; j += b.step) {
        for (std::int64_t k = c.first; k < c.last; k += c.step) {
          const std::int64_t place = (i * in[1] + j) * in[2] + k;
          if (x[place] > x[best] || is_nan(x[place])) best = place;
        }
      }
    }
    values.data()[n] = x[best];
    indices.data()[n] = best;
  }
  values.store();
  indices.store();
}

// max_pool.._with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)
void max_pool_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const Dims& sizes = *optional_dims_arg(call, 1);
  const PerDim kernel(call, 1, sizes), padding(call, 3, Dims(3, 0)), dilation(call, 4, Dims(3, 1));
  const std::size_t pooled = pooled_dims(self, call.outputs[0], sizes);
  const Dims whole{kernel[0], kernel[pooled > 1 ? 1 : 0], kernel[pooled > 2 ? 2 : 0]};
  const PerDim stride(call, 2, whole);
  const std::size_t first = self.shape().size() - pooled;
  const auto steps = [&](std::size_t i, std::int64_t r, std::int64_t) -> Steps {
    std::int64_t start = r * stride[i] - padding[i];
    const std::int64_t end = start + (kernel[i] - 1) * dilation[i] + 1;
    while (start < 0) start += dilation[i];
    return {start, std::min(end, self.size(first + i)), dilation[i]};
  };
  with_compute_type<kNoComplex>(
      self.dtype(), [&](auto type) { largest_in_windows<decltype(type)>(call, pooled, steps); });
}

// adaptive_max_pool..(self, output_size)
void adaptive_max_pool_kernel(const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  if (out.numel() == 0) return;
  const std::size_t pooled = optional_dims_arg(call, 1)->size();
  const std::size_t first = self.shape().size() - pooled;
  const auto steps = [&](std::size_t i, std::int64_t r, std::int64_t) -> Steps {
    const Range range = adaptive_range(r, self.size(first + i), out.size(first + i));
    return {range.first, range.last, 1};
  };
  with_compute_type<kRealKind>(
      self.dtype(), [&](auto type) { largest_in_windows<decltype(type)>(call, pooled, steps); });
}

// fractional_max_pool..(self, kernel_size, output_size, random_samples): windows start at steps of
// a fraction, which the numbers of a plane shift. In a plane the last dim's number comes first.
void fractional_max_pool_kernel(const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  const Dims &kernel = *optional_dims_arg(call, 1), &sizes = *optional_dims_arg(call, 2);
  const RowMajor<double> numbers(tensor_arg(call, 3));
  const std::size_t pooled = sizes.size(), first = self.shape().size() - pooled;
  const bool wide = self.dtype() == DType::kF64;
  const auto steps = [&](std::size_t i, std::int64_t r, std::int64_t plane) -> Steps {
    const std::int64_t last = self.size(first + i) - kernel[i], to = out.size(first + i);
    std::int64_t start = last;
    if (r + 1 < to) {
      const auto index = static_cast<std::size_t>(plane) * pooled + (pooled == 2 ? 1 - i : i);
      const double number = numbers.data()[index];
      const auto at = [&](double x) -> std::int64_t {
        const double step = static_cast<double>(last) / static_cast<double>(to - 1);
        if (wide) return static_cast<std::int64_t>(x * step);
        return static_cast<std::int64_t>(static_cast<float>(x) * static_cast<float>(step));
      };
      start = std::clamp<std::int64_t>(at(static_cast<double>(r) + number) - at(number), 0, last);
    }
    return {start, start + kernel[i], 1};
  };
  with_compute_type<kRealKind>(
      self.dtype(), [&](auto type) { largest_in_windows<decltype(type)>(call, pooled, steps); });
}

template <typename Filter, bool aligns>
void set_upsample(KernelTable& table, KernelId forward, KernelId backward) {
  table.set(forward, upsample_kernel<Filter, aligns, Direction::kForward>);
  table.set(backward, upsample_kernel<Filter, aligns, Direction::kBackward>);
}

}  // namespace

void add_resample_kernels(KernelTable& table) {
  set_upsample<Nearest<false>, false>(table, KernelId::kUpsampleNearest,
                                      KernelId::kUpsampleNearestBackward);
  set_upsample<Nearest<true>, false>(table, KernelId::kUpsampleNearestExact,
                                     KernelId::kUpsampleNearestExactBackward);
  set_upsample<Linear, true>(table, KernelId::kUpsampleLinear, KernelId::kUpsampleLinearBackward);
  set_upsample<Cubic, true>(table, KernelId::kUpsampleCubic, KernelId::kUpsampleCubicBackward);
  set_upsample<Smoothed<Triangle>, true>(table, KernelId::kUpsampleLinearAa,
                                         KernelId::kUpsampleLinearAaBackward);
  set_upsample<Smoothed<Keys>, true>(table, KernelId::kUpsampleCubicAa,
                                     KernelId::kUpsampleCubicAaBackward);
  set_upsample<Smoothed<Lanczos>, true>(table, KernelId::kUpsampleLanczosAa,
                                        KernelId::kUpsampleLanczosAaBackward);
  table.set(KernelId::kAvgPool, avg_pool_kernel<Direction::kForward>);
  table.set(KernelId::kAvgPoolBackward, avg_pool_kernel<Direction::kBackward>);
  table.set(KernelId::kAdaptiveAvgPool, adaptive_avg_pool_kernel<Direction::kForward>);
  table.set(KernelId::kAdaptiveAvgPoolBackward, adaptive_avg_pool_kernel<Direction::kBackward>);
  table.set(KernelId::kMaxPool, max_pool_kernel);
  table.set(KernelId::kAdaptiveMaxPool, adaptive_max_pool_kernel);
  table.set(KernelId::kFractionalMaxPool, fractional_max_pool_kernel);
}

}  // namespace shardlab
