// Values of a plane or a room at the points of a grid, and the way back. Along each dim a point
// takes some places with weights; a value is the sum over all combinations. The change of the
// weights as the point moves gives the gradient of the grid.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/grid_sample.h"
#include "kernels/kernel_table.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

// A place along one dim; `slope`: how its weight grows with the grid's number.
struct GridTap {
  std::int64_t place;
  double weight;
  double slope;
};
struct GridTaps {
  std::array<GridTap, 4> taps;
  std::size_t count = 0;
  void add(std::int64_t place, double weight, double slope) {
    taps[count++] = {place, weight, slope};
  }
};

// A position within a dim, and how it moves with the grid's number.
struct Position {
  double at;
  double speed;
};

struct GridDim {
  std::int64_t size;
  Between between;
  Outside outside;
  bool align_corners;

  std::int64_t place(double at) const {
    return at >= 0 && at < static_cast<double>(size) ? static_cast<std::int64_t>(at) : kNowhere;
  }
  // From -1 to 1 across the dim.
  Position scaled(double number) const {
    const auto length = static_cast<double>(size);
    if (align_corners) return {(number + 1) / 2 * (length - 1), (length - 1) / 2};
    return {((number + 1) * length - 1) / 2, length / 2};
  }
  Position reflected(Position from) const {
    const double low = align_corners ? 0 : -0.5;
    const double span = static_cast<double>(align_corners ? size - 1 : size);
    if (span <= 0) return {0, 0};
    const double sign = from.at < low ? -1 : 1, distance = std::abs(from.at - low);
    const double rest = std::fmod(distance, span);
    const bool back = std::fmod(std::floor(distance / span), 2) != 0;
    return {low + (back ? span - rest : rest), from.speed * (back ? -sign : sign)};
  }
  Position inside(Position from) const {
    if (outside == Outside::kZeros) return from;
    if (outside == Outside::kReflection) from = reflected(from);
    const auto last = static_cast<double>(size - 1);
    if (from.at > 0 && from.at < last) return from;
    // NaN is put at the end.
    return {from.at <= 0 ? 0 : last, 0};
  }

  GridTaps taps(double number) const {
    GridTaps taps;
    const Position free = scaled(number);
    if (between == Between::kCubic) return cubic(free);
    const Position position = inside(free);
    if (between == Between::kNearest) {
      taps.add(place(std::nearbyint(position.at)), 1, 0);
      return taps;
    }
    const double low = std::floor(position.at), share = position.at - low;
    taps.add(place(low), 1 - share, -position.speed);
    taps.add(place(low + 1), share, position.speed);
    return taps;
  }

 private:
  static constexpr double kA = -0.75;
  // The weight of a place at this distance, and its slope.
  static std::array<double, 2> weight(double x) {
    const double sign = x < 0 ? -1 : 1;
    x = std::abs(x);
    if (x < 1)
      return {((kA + 2) * x - (kA + 3)) * x * x + 1, sign * (3 * (kA + 2) * x - 2 * (kA + 3)) * x};
    return {(((x - 5) * x + 8) * x - 4) * kA, sign * ((3 * x - 10) * x + 8) * kA};
  }
  GridTaps cubic(Position free) const {
    GridTaps taps;
    const double low = std::floor(free.at);
    for (int i = -1; i <= 2; ++i) {
      const auto [value, slope] = weight(free.at - (low + i));
      taps.add(place(inside({low + i, 0}).at), value, slope * free.speed);
    }
    return taps;
  }
};

// The arguments that forward and backward read: input, grid and three words from `first` on.
class Sampler {
 public:
  Sampler(const KernelCall& call, std::size_t first)
      : input_shape_(tensor_arg(call, first).shape()),
        grid_(tensor_arg(call, first + 1)),
        points_shape_(tensor_arg(call, first + 1).shape()) {
    for (std::size_t d = 2; d < input_shape_.size(); ++d) {
      dims_.push_back({input_shape_[d], static_cast<Between>(int_arg(call, first + 2)),
                       static_cast<Outside>(int_arg(call, first + 3)),
                       scalar_arg(call, first + 4).to_bool()});
      places_ *= input_shape_[d];
      points_ *= points_shape_[d - 1];
    }
  }
  std::int64_t samples() const { return input_shape_[0]; }
  std::int64_t channels() const { return input_shape_[1]; }
  std::int64_t places() const { return places_; }
  std::int64_t points() const { return points_; }
  std::size_t dims() const { return dims_.size(); }

  // run(place, taps): for each combination of places around a point, its place in the input and the
  // tap of each dim. Combinations beyond the input count as zeros and are left out.
  template <typename Run>
  void around(std::int64_t point, Run&& run) const {
    std::array<GridTaps, 3> along;
    for (std::size_t d = 0; d < dims(); ++d) {
      // The grid's numbers begin with the last dim.
      const auto number = static_cast<std::size_t>(point) * dims() + (dims() - 1 - d);
      along[d] = dims_[d].taps(grid_.data()[number]);
    }
    std::array<const GridTap*, 3> taps{};
    combine(0, 0, along, taps, run);
  }

 private:
  template <typename Run>
  void combine(std::size_t d, std::int64_t place, const std::array<GridTaps, 3>& along,
               std::array<const GridTap*, 3>& taps, Run& run) const {
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
  std::vector<GridDim> dims_;
  std::int64_t places_ = 1, points_ = 1;
};

double weight_of(const std::array<const GridTap*, 3>& taps, std::size_t dims) {
  double weight = 1;
  for (std::size_t d = 0; d < dims; ++d) weight *= taps[d]->weight;
  return weight;
}

// grid_sampler_..(input, grid, interpolation_mode, padding_mode, align_corners)
void grid_sample_kernel(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const bool half = out.dtype() == DType::kF16 || out.dtype() == DType::kBF16;
  if (half && out.shape().size() == 4) return sample_half_planes(call);
  const Sampler sampler(call, 0);
  const RowMajor<double> input(tensor_arg(call, 0));
  std::vector<double> result(static_cast<std::size_t>(out.numel()), 0);
  for (std::int64_t n = 0; n < sampler.samples(); ++n) {
    for (std::int64_t p = 0; p < sampler.points(); ++p) {
      sampler.around(n * sampler.points() + p, [&](std::int64_t place, const auto& taps) {
        const double weight = weight_of(taps, sampler.dims());
        for (std::int64_t c = n * sampler.channels(); c < (n + 1) * sampler.channels(); ++c) {
          result[static_cast<std::size_t>(c * sampler.points() + p)] +=
              weight * input.data()[c * sampler.places() + place];
        }
      });
    }
  }
  store_row_major(out, result.data(), DType::kF64);
}

// grid_sampler_.._backward(grad_output, input, grid, .., output_mask): of input, of grid
void grid_sample_backward_kernel(const KernelCall& call) {
  const Tensor &input_tensor = tensor_arg(call, 1), &grid = tensor_arg(call, 2);
  const Sampler sampler(call, 1);
  const RowMajor<double> gradient(tensor_arg(call, 0)), input(input_tensor);
  std::vector<double> of_input(static_cast<std::size_t>(input_tensor.numel()), 0);
  std::vector<double> of_grid(static_cast<std::size_t>(grid.numel()), 0);
  const std::size_t dims = sampler.dims();
  for (std::int64_t n = 0; n < sampler.samples(); ++n) {
    for (std::int64_t p = 0; p < sampler.points(); ++p) {
      const std::int64_t point = n * sampler.points() + p;
      sampler.around(point, [&](std::int64_t place, const auto& taps) {
        const double weight = weight_of(taps, dims);
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
