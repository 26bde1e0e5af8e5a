// Planes of f16 and bf16 at the points of a grid. The reference computes them in vectors of the
// dtype, which round after every step: its values show it, so the steps and their order are the
// same here.
#include <array>
#include <cmath>
#include <vector>

#include "base/dtype.h"
#include "kernels/grid_sample.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

/// A number of `dtype`; each operation rounds to it.
template <DType dtype>
struct Rounded {
  float value = 0;

  Rounded() = default;
  Rounded(double number) : value(rounded(static_cast<float>(number))) {}
  static float rounded(float x) {
    if constexpr (dtype == DType::kF16) return to_float(to_half(x));
    return to_float(to_bfloat16(x));
  }
  friend Rounded operator+(Rounded a, Rounded b) { return Rounded(a.value + b.value); }
  friend Rounded operator-(Rounded a, Rounded b) { return Rounded(a.value - b.value); }
  friend Rounded operator*(Rounded a, Rounded b) { return Rounded(a.value * b.value); }
  friend Rounded operator/(Rounded a, Rounded b) { return Rounded(a.value / b.value); }
  Rounded floor() const { return Rounded(std::floor(value)); }
};

/// One dim of a plane.
template <typename Number>
struct HalfDim {
  std::int64_t size;
  Outside outside;
  bool align_corners;

  Number scaled(Number from) const {
    const auto length = static_cast<double>(size);
    const Number sum = from + Number(1);
    if (align_corners) return sum * Number((length - 1) / 2);
    return sum * Number(length / 2) - Number(0.5);
  }
  Number inside(Number at) const {
    if (outside == Outside::kZeros) return at;
    if (outside == Outside::kReflection) at = reflected(at);
    // NaN is put at the front.
    const float least = at.value > 0 ? at.value : 0;
    return Number(std::min(least, static_cast<float>(size - 1)));
  }
  std::int64_t place(Number at) const {
    const bool within = at.value >= 0 && at.value < static_cast<float>(size);
    return within ? static_cast<std::int64_t>(at.value) : kNowhere;
  }

 private:
  Number reflected(Number at) const {
    if (align_corners && size <= 1) return Number(0);
    const Number low(align_corners ? 0 : -0.5),
        twice(2.0 * static_cast<double>(size) - (align_corners ? 2 : 0));
    const Number distance(std::abs((at - low).value));
    const Number turns(std::trunc((distance / twice).value));
    const Number rest = distance - turns * twice, other = twice - rest;
    return Number(std::min(rest.value, other.value)) + low;
  }
};

/// Weights of the four places around a position that is `t` behind the second one.
template <typename Number>
std::array<Number, 4> cubic_weights(Number t) {
  const Number a(-0.75);
  const auto far = [&](Number x) {
    return ((a * x - Number(5) * a) * x + Number(8) * a) * x - Number(4) * a;
  };
  const auto near = [&](Number x) {
    return ((a + Number(2)) * x - (a + Number(3))) * x * x + Number(1);
  };
  return {far(t + Number(1)), near(t), near(Number(1) - t), far(Number(2) - t)};
}

/// A plane of one channel; places beyond it are 0.
template <typename Number>
struct Plane {
  const double* values;
  std::int64_t width;
  Number at(std::int64_t row, std::int64_t column) const {
    if (row == kNowhere || column == kNowhere) return Number(0);
    return Number(values[row * width + column]);
  }
};

/// Places along both dims around a point, and their weights.
template <typename Number>
struct Around {
  std::size_t count = 1;
  std::array<std::int64_t, 4> rows{}, columns{};
  std::array<Number, 4> down{}, across{};

  Around(const HalfDim<Number>& height, const HalfDim<Number>& width, Number y, Number x,
         Between between) {
    if (between == Between::kCubic) {
      count = 4;
      along(height, height.scaled(y), rows, down);
      along(width, width.scaled(x), columns, across);
      return;
    }
    const Number row = height.inside(height.scaled(y)), column = width.inside(width.scaled(x));
    if (between == Between::kNearest) {
      rows[0] = height.place(Number(std::nearbyint(row.value)));
      columns[0] = width.place(Number(std::nearbyint(column.value)));
      return;
    }
    count = 2;
    pair(height, row, rows, down);
    pair(width, column, columns, across);
  }

  Number value(const Plane<Number>& plane) const {
    if (count == 1) return plane.at(rows[0], columns[0]);
    Number sum;
    for (std::size_t i = 0; i < count; ++i) {
      Number line;
      for (std::size_t j = 0; j < count; ++j) {
        const Number one = plane.at(rows[i], columns[j]);
        // Each of four corners has one weight; a cubic sums up lines first, then the sums.
        if (count == 2)
          sum = add(sum, one * (across[j] * down[i]), i + j == 0);
        else
          line = add(line, one * across[j], j == 0);
      }
      if (count == 4) sum = add(sum, line * down[i], i == 0);
    }
    return sum;
  }

 private:
  static Number add(Number sum, Number term, bool first) { return first ? term : sum + term; }
  static void pair(const HalfDim<Number>& dim, Number at, std::array<std::int64_t, 4>& places,
                   std::array<Number, 4>& weights) {
    const Number low = at.floor(), share = at - low;
    places = {dim.place(low), dim.place(low + Number(1))};
    weights = {Number(1) - share, share};
  }
  static void along(const HalfDim<Number>& dim, Number at, std::array<std::int64_t, 4>& places,
                    std::array<Number, 4>& weights) {
    const Number low = at.floor();
    weights = cubic_weights(at - low);
    for (std::size_t i = 0; i < 4; ++i) {
      places[i] = dim.place(dim.inside(low + Number(static_cast<double>(i) - 1)));
    }
  }
};

template <typename Number>
void sample(const KernelCall& call) {
  const Tensor &out = call.outputs[0], &input = tensor_arg(call, 0), &grid = tensor_arg(call, 1);
  const auto between = static_cast<Between>(int_arg(call, 2));
  const auto outside = static_cast<Outside>(int_arg(call, 3));
  const bool corners = scalar_arg(call, 4).to_bool();
  const HalfDim<Number> height{input.shape()[2], outside, corners},
      width{input.shape()[3], outside, corners};
  const RowMajor<double> values(input), numbers(grid);
  const std::int64_t channels = input.shape()[1], places = height.size * width.size;
  const std::int64_t points = grid.shape()[1] * grid.shape()[2];
  std::vector<double> result(static_cast<std::size_t>(out.numel()));
  for (std::int64_t n = 0; n < input.shape()[0]; ++n) {
    for (std::int64_t p = 0; p < points; ++p) {
      const double* point = numbers.data() + 2 * (n * points + p);
      const Around<Number> around(height, width, Number(point[1]), Number(point[0]), between);
      for (std::int64_t c = n * channels; c < (n + 1) * channels; ++c) {
        const Plane<Number> plane{values.data() + c * places, width.size};
        result[static_cast<std::size_t>(c * points + p)] = around.value(plane).value;
      }
    }
  }
  store_row_major(out, result.data(), DType::kF64);
}

}  // namespace

void sample_half_planes(const KernelCall& call) {
  if (call.outputs[0].dtype() == DType::kF16) return sample<Rounded<DType::kF16>>(call);
  return sample<Rounded<DType::kBF16>>(call);
}

}  // namespace shardlab
