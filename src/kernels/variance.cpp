// Variance, standard deviation and vector norms: in f64, rounded once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kernel_table.h"
#include "kernels/row_reduce.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

template <typename T>
double squared_magnitude(T value) {
  if constexpr (Complex<T>)
    return std::norm(value);
  else
    return value * value;
}

struct SquaredMagnitude {
  template <typename T>
  double operator()(T value, std::int64_t) const {
    return squared_magnitude(value);
  }
  void vector(VectorOf<double>& values, std::int64_t) const { values *= values; }
};

// How far the elements of a row are from its mean, squared.
template <typename T>
struct SquaredDeviation {
  const T* mean;

  double operator()(T value, std::int64_t row) const {
    return squared_magnitude(value - mean[row]);
  }
  void vector(VectorOf<double>& values, std::int64_t row) const requires std::is_same_v<T, double> {
    values -= mean[row];
    values *= values;
  }
};

enum class Spread { kVariance, kDeviation };

template <Spread spread>
void variance_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const double correction = correction_of(call);
  const RowLayout layout(self, reduced_dims(call, 1, self));
  with_wide_type(self, [&](auto type) {
    using T = decltype(type);
    const std::int64_t count = layout.size(), rows = layout.rows();
    const auto means = scratch<T>(rows);
    const auto spreads = scratch<double>(rows);
    const RowReduction<SumOp, T, T, Unchanged> sum(self, layout, {});
    const RowReduction<SumOp, double, T, SquaredDeviation<T>> deviations(self, layout,
                                                                         {means.get()});
    // Rows that lie in one piece are in a core's cache still when they are read again.
    constexpr std::int64_t kTogether = 1024;
    const std::int64_t block =
        layout.in_one_piece() && count > 0 ? std::max<std::int64_t>(kTogether / count, 1) : rows;
    for (std::int64_t row = 0; row < rows; row += block) {
      const RowRange range{row, std::min(block, rows - row)};
      sum.run(means.get(), range);
      for (std::int64_t i = row; i < row + range.count; ++i) {
        means[i] /= T(static_cast<double>(count));
      }
      deviations.run(spreads.get(), range);
    }
    const double parts = std::max(static_cast<double>(count) - correction, 0.0);
    for (std::int64_t i = 0; i < layout.rows(); ++i) {
      spreads[i] /= parts;
      if (spread == Spread::kDeviation) spreads[i] = std::sqrt(spreads[i]);
    }
    store_row_major(call.outputs[0], spreads.get(), DType::kF64);
    if (call.outputs.size() > 1) store_row_major(call.outputs[1], means.get(), dtype_of<T>());
  });
}

// Norms of the rows; orders that are no root of a sum of powers come first.
template <typename T>
Scratch<double> norms(const Tensor& self, const RowLayout& layout, double order) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto of = [&]<typename Op>(Op, auto map) {
    return reduce_mapped<Op, double, T>(self, layout, map);
  };
  const auto magnitude = [](T value, std::int64_t) -> double { return std::abs(value); };
  if (order == -kInfinity) return of(MinOp{}, magnitude);
  if (order == kInfinity) {
    auto most = of(MaxOp{}, magnitude);
    if (layout.size() == 0) std::fill_n(most.get(), layout.rows(), 0.0);
    return most;
  }
  if (order == 0) {
    return of(SumOp{}, [](T value, std::int64_t) { return double(std::abs(value) != 0); });
  }
  if (order == 1) return of(SumOp{}, magnitude);
  if (order == 2) {
    auto sums = of(SumOp{}, SquaredMagnitude{});
    for (std::int64_t i = 0; i < layout.rows(); ++i) sums[i] = std::sqrt(sums[i]);
    return sums;
  }
  auto sums = of(SumOp{},
                 [=](T value, std::int64_t row) { return std::pow(magnitude(value, row), order); });
  for (std::int64_t i = 0; i < layout.rows(); ++i) sums[i] = std::pow(sums[i], 1 / order);
  return sums;
}

// linalg_vector_norm(self, ord, dim, keepdim, *, dtype)
void vector_norm_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const double order = scalar_arg(call, 1).to_double();
  const RowLayout layout(self, reduced_dims(call, 2, self));
  with_wide_type(self, [&](auto type) {
    const auto results = norms<decltype(type)>(self, layout, order);
    store_row_major(call.outputs[0], results.get(), DType::kF64);
  });
}

}  // namespace

void add_variance_kernels(KernelTable& table) {
  table.set(KernelId::kVar, variance_kernel<Spread::kVariance>);
  table.set(KernelId::kVarMean, variance_kernel<Spread::kVariance>);
  table.set(KernelId::kStd, variance_kernel<Spread::kDeviation>);
  table.set(KernelId::kStdMean, variance_kernel<Spread::kDeviation>);
  table.set(KernelId::kVectorNorm, vector_norm_kernel);
}

}  // namespace shardlab
