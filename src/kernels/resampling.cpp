// Upsampling and mean pooling are linear and run dim by dim: per dim, each result is a weighted sum
// of some places. The largest of a window is found in all dims at once.
#include "kernels/resampling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/kernel_args.h"

namespace shardlab {

namespace {

using Direction = Resampling::Direction;

// The scaling of a dim: from `source` to `target` places.
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
  // The place of a result, possibly between two places of the source.
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
    const double share = std::min(at - static_cast<double>(low), 1.0);
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

// If places are left out, their neighbours are averaged with the filter widened.
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

double optional_number(const KernelCall& call, std::size_t index) {
  const Scalar* number = optional_scalar_arg(call, index);
  return number == nullptr ? 0 : number->to_double();
}

// upsample..(self, output_size, [align_corners], scales..), and with the gradient for self and
// input_size behind output_size.
template <typename Filter, bool aligns, Direction direction>
Resampling upsampling(const KernelCall& call) {
  const bool forward = direction == Direction::kForward;
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  const Dims& sizes = *optional_dims_arg(call, 1);
  std::size_t next = forward ? 2 : 3;
  const bool align_corners = aligns && scalar_arg(call, next).to_bool();
  if (aligns) ++next;
  Resampling made{direction, out.dtype() == DType::kU8, {}};
  const std::size_t first = self.shape().size() - sizes.size();
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const std::int64_t source = (forward ? self : out).size(first + i);
    const Scaling scaling{source, sizes[i], align_corners, optional_number(call, next + i)};
    SampledDim sampled{first + i, source, {}};
    for (std::int64_t r = 0; r < sizes[i]; ++r) {
      sampled.windows.push_back(Filter::window(scaling, r));
    }
    made.dims.push_back(std::move(sampled));
  }
  return made;
}

// A list of one number per pooled dim; an empty one is `fallback`.
class PerDim {
 public:
  PerDim(const KernelCall& call, std::size_t index, const Dims& fallback)
      : given_(optional_dims_arg(call, index)), fallback_(fallback) {}
  std::int64_t operator[](std::size_t i) const {
    if (given_ == nullptr || given_->empty()) return fallback_[i];
    return (*given_)[i];
  }

 private:
  const Dims* given_;
  Dims fallback_;
};

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
Resampling mean_pooling(const KernelCall& call) {
  const bool forward = direction == Direction::kForward;
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  const std::size_t shift = forward ? 1 : 2;
  const Dims& sizes = *optional_dims_arg(call, shift);
  const std::size_t count = sizes.size();
  const PerDim stride(call, shift + 1, sizes), padding(call, shift + 2, Dims(count, 0));
  const bool padded = scalar_arg(call, shift + 4).to_bool();
  const double divisor = call.args.size() > shift + 5 ? optional_number(call, shift + 5) : 0;
  Resampling made{direction, false, {}};
  const std::size_t first = self.shape().size() - count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t source = (forward ? self : out).size(first + i);
    const std::int64_t target = (forward ? out : self).size(first + i);
    SampledDim sampled{first + i, source, {}};
    for (std::int64_t r = 0; r < target; ++r) {
      const std::int64_t start = r * stride[i] - padding[i];
      const std::int64_t end = std::min(start + sizes[i], source + padding[i]);
      const Range inside{std::max<std::int64_t>(start, 0), std::min(end, source)};
      const std::int64_t counted = padded ? end - start : inside.last - inside.first;
      Window window;
      add_places(window, inside);
      window.divisor = divisor != 0 ? (i == 0 ? divisor : 1)
                                    : static_cast<double>(std::max<std::int64_t>(counted, 1));
      sampled.windows.push_back(std::move(window));
    }
    made.dims.push_back(std::move(sampled));
  }
  return made;
}

// adaptive_avg_pool..(self, output_size), gradient (grad_output, self): the same along dims that
// keep their size.
template <Direction direction>
Resampling adaptive_mean_pooling(const KernelCall& call) {
  const bool forward = direction == Direction::kForward;
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  Resampling made{direction, false, {}};
  for (std::size_t d = 0; d < self.shape().size(); ++d) {
    const std::int64_t source = (forward ? self : out).size(d);
    const std::int64_t target = (forward ? out : self).size(d);
    if (source == target) continue;
    SampledDim sampled{d, source, {}};
    for (std::int64_t r = 0; r < target; ++r) {
      const Range range = adaptive_range(r, source, target);
      Window window{{}, static_cast<double>(range.last - range.first)};
      add_places(window, range);
      sampled.windows.push_back(std::move(window));
    }
    made.dims.push_back(std::move(sampled));
  }
  return made;
}

template <typename Filter, bool aligns>
constexpr ResamplingKernel upward(KernelId id) {
  return {id, upsampling<Filter, aligns, Direction::kForward>};
}
template <typename Filter, bool aligns>
constexpr ResamplingKernel back(KernelId id) {
  return {id, upsampling<Filter, aligns, Direction::kBackward>};
}

constexpr ResamplingKernel kKernels[] = {
    upward<Nearest<false>, false>(KernelId::kUpsampleNearest),
    back<Nearest<false>, false>(KernelId::kUpsampleNearestBackward),
    upward<Nearest<true>, false>(KernelId::kUpsampleNearestExact),
    back<Nearest<true>, false>(KernelId::kUpsampleNearestExactBackward),
    upward<Linear, true>(KernelId::kUpsampleLinear),
    back<Linear, true>(KernelId::kUpsampleLinearBackward),
    upward<Cubic, true>(KernelId::kUpsampleCubic),
    back<Cubic, true>(KernelId::kUpsampleCubicBackward),
    upward<Smoothed<Triangle>, true>(KernelId::kUpsampleLinearAa),
    back<Smoothed<Triangle>, true>(KernelId::kUpsampleLinearAaBackward),
    upward<Smoothed<Keys>, true>(KernelId::kUpsampleCubicAa),
    back<Smoothed<Keys>, true>(KernelId::kUpsampleCubicAaBackward),
    upward<Smoothed<Lanczos>, true>(KernelId::kUpsampleLanczosAa),
    back<Smoothed<Lanczos>, true>(KernelId::kUpsampleLanczosAaBackward),
    {KernelId::kAvgPool, mean_pooling<Direction::kForward>},
    {KernelId::kAvgPoolBackward, mean_pooling<Direction::kBackward>},
    {KernelId::kAdaptiveAvgPool, adaptive_mean_pooling<Direction::kForward>},
    {KernelId::kAdaptiveAvgPoolBackward, adaptive_mean_pooling<Direction::kBackward>},
};

// steps(i, r, plane): the places of result r along pooled dim i of a plane.
PoolWindows windows_by(const KernelCall& call, std::size_t pooled, bool by_plane, auto steps) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  PoolWindows made;
  made.by_plane = by_plane;
  for (std::size_t i = 0; i < pooled; ++i) {
    made.in[3 - pooled + i] = self.size(self.shape().size() - pooled + i);
    made.out[3 - pooled + i] = out.size(self.shape().size() - pooled + i);
  }
  const std::int64_t results = made.out[0] * made.out[1] * made.out[2];
  const std::int64_t planes = by_plane ? out.numel() / results : 1;
  for (std::size_t d = 0; d < 3; ++d) {
    for (std::int64_t i = 0; i < planes * made.out[d]; ++i) {
      const bool unused = d + pooled < 3;
      made.dims[d].push_back(unused ? WindowSteps{0, 1, 1}
                                    : steps(d + pooled - 3, i % made.out[d], i / made.out[d]));
    }
  }
  return made;
}

// max_pool.._with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)
PoolWindows largest_windows(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const Dims& sizes = *optional_dims_arg(call, 1);
  const std::size_t pooled = sizes.size();
  const PerDim stride(call, 2, sizes), padding(call, 3, Dims(pooled, 0)),
      dilation(call, 4, Dims(pooled, 1));
  const std::size_t first = self.shape().size() - pooled;
  return windows_by(call, pooled, false,
                    [&](std::size_t i, std::int64_t r, std::int64_t) -> WindowSteps {
                      std::int64_t start = r * stride[i] - padding[i];
                      const std::int64_t end = start + (sizes[i] - 1) * dilation[i] + 1;
                      while (start < 0) start += dilation[i];
                      return {start, std::min(end, self.size(first + i)), dilation[i]};
                    });
}

// adaptive_max_pool..(self, output_size)
PoolWindows adaptive_windows(const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  const std::size_t pooled = optional_dims_arg(call, 1)->size();
  const std::size_t first = self.shape().size() - pooled;
  return windows_by(
      call, pooled, false, [&](std::size_t i, std::int64_t r, std::int64_t) -> WindowSteps {
        const Range range = adaptive_range(r, self.size(first + i), out.size(first + i));
        return {range.first, range.last, 1};
      });
}

// fractional_max_pool..(self, kernel_size, output_size, random_samples): windows start at steps of
// a fraction, which the numbers of a plane shift. In a plane the last dim's number is first.
PoolWindows fractional_windows(const KernelCall& call, std::span<const double> shifts) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  const Dims& kernel = *optional_dims_arg(call, 1);
  const std::size_t pooled = optional_dims_arg(call, 2)->size();
  const std::size_t first = self.shape().size() - pooled;
  const bool wide = self.dtype() == DType::kF64;
  const auto steps = [&](std::size_t i, std::int64_t r, std::int64_t plane) -> WindowSteps {
    const std::int64_t last = self.size(first + i) - kernel[i], to = out.size(first + i);
    std::int64_t start = last;
    if (r + 1 < to) {
      const auto index = static_cast<std::size_t>(plane) * pooled + (pooled == 2 ? 1 - i : i);
      const double number = shifts[index];
      const auto at = [&](double x) -> std::int64_t {
        const double step = static_cast<double>(last) / static_cast<double>(to - 1);
        if (wide) return static_cast<std::int64_t>(x * step);
        return static_cast<std::int64_t>(static_cast<float>(x) * static_cast<float>(step));
      };
      start = std::clamp<std::int64_t>(at(static_cast<double>(r) + number) - at(number), 0, last);
    }
    return {start, start + kernel[i], 1};
  };
  return windows_by(call, pooled, true, steps);
}

}  // namespace

std::span<const ResamplingKernel> resampling_kernels() { return kKernels; }

PoolWindows pool_windows_of(const KernelCall& call, std::span<const double> shifts) {
  if (call.kernel == KernelId::kMaxPool) return largest_windows(call);
  if (call.kernel == KernelId::kAdaptiveMaxPool) return adaptive_windows(call);
  return fractional_windows(call, shifts);
}

}  // namespace shardlab
