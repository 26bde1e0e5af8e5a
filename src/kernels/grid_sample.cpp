// Values of a plane or a room at the points of a grid, and the way back. Along each dim a point
// takes some places with weights; a value is the sum over all combinations. The change of the
// weights as the point moves gives the gradient of the grid.
//
// Numbers are doubles, but in planes of f16 and bf16: the reference computes those in vectors of
// the dtype, which round after every step. Its values show it, so the steps are its own.
#include <array>
#include <cmath>
#include <vector>

#include "base/dtype.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

// ATen's numbers of interpolation_mode and padding_mode.
enum class Between : std::int64_t { kLinear = 0, kNearest = 1, kCubic = 2 };
enum class Outside : std::int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

// A place that is beyond the input.
constexpr std::int64_t kNowhere = -1;

// A number of `dtype`; each operation rounds to it.
template <DType dtype>
class Rounded {
 public:
  Rounded() = default;
  Rounded(double number) {
    const auto x = static_cast<float>(number);
    value_ = dtype == DType::kF16 ? to_float(to_half(x)) : to_float(to_bfloat16(x));
  }
  explicit operator double() const { return value_; }
  friend Rounded operator+(Rounded a, Rounded b) { return a.value_ + b.value_; }
  friend Rounded operator-(Rounded a, Rounded b) { return a.value_ - b.value_; }
  friend Rounded operator*(Rounded a, Rounded b) { return a.value_ * b.value_; }
  friend Rounded operator/(Rounded a, Rounded b) { return a.value_ / b.value_; }

 private:
  float value_ = 0;
};

// A place along one dim; `slope`: how its weight grows with the grid's number.
template <typename Number>
struct GridTap {
  std::int64_t place;
  Number weight, slope;
};
template <typename Number>
struct GridTaps {
  std::array<GridTap<Number>, 4> taps = {};
  std::size_t count = 0;
  void add(std::int64_t place, Number weight, Number slope) {
    taps[count++] = {place, weight, slope};
  }
};

// A position within a dim, and how it moves with the grid's number.
template <typename Number>
struct Position {
  Number at, speed;
};

template <typename Number>
struct GridDim {
  std::int64_t size;
  Between between;
  Outside outside;
  bool align_corners;
  bool nan_is_first;  ///< or last: with padding, NaN is at an end

  std::int64_t place(Number number) const {
    const auto at = double(number);
    return at >= 0 && at < static_cast<double>(size) ? static_cast<std::int64_t>(at) : kNowhere;
  }
  // From -1 to 1 across the dim.
  Position<Number> scaled(Number number) const {
    const Number half = static_cast<double>(align_corners ? size - 1 : size) / 2;
    const Number at = (number + Number(1)) * half;
    return {align_corners ? at : at - Number(0.5), half};
  }
  Position<Number> reflected(Position<Number> from) const {
    if (align_corners && size <= 1) return {0, 0};
    const Number low = align_corners ? 0 : -0.5;
    const Number twice = 2 * static_cast<double>(align_corners ? size - 1 : size);
    const bool before = double(from.at) < double(low);
    const Number distance = std::abs(double(from.at - low));
    const Number turns = std::trunc(double(distance / twice));
    const Number rest = distance - turns * twice, other = twice - rest;
    const bool back = double(rest) >= double(other);
    return {low + (back ? other : rest), back == before ? from.speed : Number(0) - from.speed};
  }
  Position<Number> inside(Position<Number> from) const {
    if (outside == Outside::kZeros) return from;
    if (outside == Outside::kReflection) from = reflected(from);
    const auto last = static_cast<double>(size - 1);
    const auto at = double(from.at);
    if (at > 0 && at < last) return from;
    return {at > 0 || (std::isnan(at) && !nan_is_first) ? last : 0, 0};
  }

  GridTaps<Number> taps(Number number) const {
    GridTaps<Number> taps;
    const Position<Number> free = scaled(number);
    if (between == Between::kCubic) return cubic(free);
    const Position<Number> position = inside(free);
    if (between == Between::kNearest) {
      taps.add(place(std::nearbyint(double(position.at))), 1, 0);
      return taps;
    }
    const Number low = std::floor(double(position.at)), share = position.at - low;
    taps.add(place(low), Number(1) - share, Number(0) - position.speed);
    taps.add(place(low + Number(1)), share, position.speed);
    return taps;
  }

 private:
  GridTaps<Number> cubic(Position<Number> free) const {
    GridTaps<Number> taps;
    const Number a = -0.75, low = std::floor(double(free.at)), share = free.at - low;
    const Number back = Number(0) - free.speed;
    const auto add = [&](double step, Number x, Number speed) {
      const bool is_far = step == -1 || step == 2;
      const Number weight = is_far
                                ? ((a * x - Number(5) * a) * x + Number(8) * a) * x - Number(4) * a
                                : ((a + Number(2)) * x - (a + Number(3))) * x * x + Number(1);
      const Number slope =
          is_far ? (Number(3) * a * x - Number(10) * a) * x + Number(8) * a
                 : (Number(3) * (a + Number(2)) * x - Number(2) * (a + Number(3))) * x;
      taps.add(place(inside({low + Number(step), 0}).at), weight, slope * speed);
    };
    add(-1, share + Number(1), free.speed);
    add(0, share, free.speed);
    add(1, Number(1) - share, back);
    add(2, Number(2) - share, back);
    return taps;
  }
};

// The arguments that forward and backward read: input, grid and three words from `first` on.
template <typename Number>
class Sampler {
 public:
  using Along = std::array<GridTaps<Number>, 3>;
  using Taps = std::array<const GridTap<Number>*, 3>;

  Sampler(const KernelCall& call, std::size_t first)
      : input_shape_(tensor_arg(call, first).shape()),
        grid_(tensor_arg(call, first + 1)),
        points_shape_(tensor_arg(call, first + 1).shape()) {
    for (std::size_t d = 2; d < input_shape_.size(); ++d) {
      dims_.push_back({input_shape_[d], static_cast<Between>(int_arg(call, first + 2)),
                       static_cast<Outside>(int_arg(call, first + 3)),
                       scalar_arg(call, first + 4).to_bool(), input_shape_.size() == 4});
      places_ *= input_shape_[d];
      points_ *= points_shape_[d - 1];
    }
  }
  std::int64_t samples() const { return input_shape_[0]; }
  std::int64_t channels() const { return input_shape_[1]; }
  std::int64_t places() const { return places_; }
  std::int64_t points() const { return points_; }
  std::size_t dims() const { return dims_.size(); }

  Along along(std::int64_t point) const {
    Along along;
    for (std::size_t d = 0; d < dims(); ++d) {
      // The grid's numbers begin with the last dim.
      const auto number = static_cast<std::size_t>(point) * dims() + (dims() - 1 - d);
      along[d] = dims_[d].taps(grid_.data()[number]);
    }
    return along;
  }

  // Adds the value of a point of a channel to `sum`. Between two places the weights of all dims are
  // multiplied first; a cubic sums up dim by dim. Places beyond a plane are zeros, which NaN as a
  // weight shows; those beyond a room are left out.
  void add_value(const double* channel, const Along& along, Number& sum, std::size_t d = 0,
                 std::int64_t place = 0, Number weight = 1) const {
    if (d == dims()) {
      sum = sum + Number(place < 0 ? 0 : channel[place]) * weight;
      return;
    }
    for (std::size_t i = 0; i < along[d].count; ++i) {
      const GridTap<Number>& tap = along[d].taps[i];
      const bool within = place >= 0 && tap.place >= 0;
      const std::int64_t next = within ? place * dims_[d].size + tap.place : kNowhere;
      if (!within && dims() == 3) continue;
      if (dims_[d].between == Between::kCubic) {
        Number line = 0;
        add_value(channel, along, line, d + 1, next);
        sum = sum + line * tap.weight;
      } else {
        add_value(channel, along, sum, d + 1, next, weight * tap.weight);
      }
    }
  }

  // run(place, taps): for each combination of places around a point, its place in the input and the
  // tap of each dim. Combinations beyond the input are left out.
  void around(std::int64_t point, auto&& run) const {
    Taps taps{};
    combine(0, 0, along(point), taps, run);
  }

 private:
  void combine(std::size_t d, std::int64_t place, const Along& along, Taps& taps, auto& run) const {
    if (d == dims()) return run(place, taps);
    for (std::size_t i = 0; i < along[d].count; ++i) {
      taps[d] = &along[d].taps[i];
      if (taps[d]->place == kNowhere) continue;
      combine(d + 1, place * dims_[d].size + taps[d]->place, along, taps, run);
    }
  }

  Dims input_shape_;
  RowMajor<double> grid_;
  Dims points_shape_;
  std::vector<GridDim<Number>> dims_;
  std::int64_t places_ = 1, points_ = 1;
};

template <typename Number>
void sample(const KernelCall& call) {
  const Sampler<Number> sampler(call, 0);
  const RowMajor<double> input(tensor_arg(call, 0));
  std::vector<double> result;
  result.reserve(static_cast<std::size_t>(call.outputs[0].numel()));
  for (std::int64_t n = 0; n < sampler.samples(); ++n) {
    std::vector<typename Sampler<Number>::Along> points;
    for (std::int64_t p = 0; p < sampler.points(); ++p) {
      points.push_back(sampler.along(n * sampler.points() + p));
    }
    for (std::int64_t c = n * sampler.channels(); c < (n + 1) * sampler.channels(); ++c) {
      for (const auto& point : points) {
        Number sum = 0;
        sampler.add_value(input.data() + c * sampler.places(), point, sum);
        result.push_back(double(sum));
      }
    }
  }
  store_row_major(call.outputs[0], result.data(), DType::kF64);
}

// grid_sampler_..(input, grid, interpolation_mode, padding_mode, align_corners)
void grid_sample_kernel(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const bool plane = out.shape().size() == 4;
  if (plane && out.dtype() == DType::kF16) return sample<Rounded<DType::kF16>>(call);
  if (plane && out.dtype() == DType::kBF16) return sample<Rounded<DType::kBF16>>(call);
  sample<double>(call);
}

// grid_sampler_.._backward(grad_output, input, grid, .., output_mask): of input, of grid
void grid_sample_backward_kernel(const KernelCall& call) {
  const Tensor &input_tensor = tensor_arg(call, 1), &grid = tensor_arg(call, 2);
  const Sampler<double> sampler(call, 1);
  const RowMajor<double> gradient(tensor_arg(call, 0)), input(input_tensor);
  std::vector<double> of_input(static_cast<std::size_t>(input_tensor.numel()), 0);
  std::vector<double> of_grid(static_cast<std::size_t>(grid.numel()), 0);
  const std::size_t dims = sampler.dims();
  for (std::int64_t n = 0; n < sampler.samples(); ++n) {
    for (std::int64_t p = 0; p < sampler.points(); ++p) {
      const std::int64_t point = n * sampler.points() + p;
      sampler.around(point, [&](std::int64_t place, const auto& taps) {
        double weight = 1;
        for (std::size_t d = 0; d < dims; ++d) weight *= taps[d]->weight;
        double along = 0;
        for (std::int64_t c = n * sampler.channels(); c < (n + 1) * sampler.channels(); ++c) {
          const double g = gradient.data()[c * sampler.points() + p];
          of_input[static_cast<std::size_t>(c * sampler.places() + place)] += weight * g;
          along += g * input.data()[c * sampler.places() + place];
        }
        for (std::size_t d = 0; d < dims; ++d) {
          double slope = taps[d]->slope * along;
          for (std::size_t e = 0; e < dims; ++e) slope *= e == d ? 1 : taps[e]->weight;
          of_grid[static_cast<std::size_t>(point) * dims + (dims - 1 - d)] += slope;
        }
      });
    }
  }
  if (call.outputs[0].defined()) store_row_major(call.outputs[0], of_input.data(), DType::kF64);
  if (call.outputs[1].defined()) store_row_major(call.outputs[1], of_grid.data(), DType::kF64);
}

}  // namespace

void add_grid_sample_kernels(CpuKernelTable& table) {
  table.set(KernelId::kGridSample, grid_sample_kernel);
  table.set(KernelId::kGridSampleBackward, grid_sample_backward_kernel);
}

}  // namespace shardlab
