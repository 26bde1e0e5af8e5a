// Variance, standard deviation and vector norms: in f64, rounded once.
#include <limits>

#include "kernels/kernel_table.h"
#include "kernels/reduce.h"
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

template <typename T>
struct Moments {
  T mean;
  double variance;
};

template <typename T>
Moments<T> moments_of(const T* row, std::int64_t count, double correction) {
  const T mean = reduce_row<SumOp>(row, count) / T(static_cast<double>(count));
  const auto deviation = [=](std::int64_t i) { return squared_magnitude(row[i] - mean); };
  const double total = reduce_range<SumOp, double>(deviation, 0, count);
  return {mean, total / std::max(static_cast<double>(count) - correction, 0.0)};
}

enum class Spread { kVariance, kDeviation };

template <Spread spread>
void variance_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const double correction = correction_of(call);
  with_wide_type(self, [&](auto type) {
    using T = decltype(type);
    Rows<T> rows(self, reduced_dims(call, 1, self));
    const auto spreads = scratch<double>(rows.count());
    const auto means = scratch<T>(rows.count());
    for (std::int64_t i = 0; i < rows.count(); ++i) {
      const auto moments = moments_of(rows.row(i), rows.size(), correction);
      spreads[i] = spread == Spread::kVariance ? moments.variance : std::sqrt(moments.variance);
      means[i] = moments.mean;
    }
    store_row_major(call.outputs[0], spreads.get(), DType::kF64);
    if (call.outputs.size() > 1) store_row_major(call.outputs[1], means.get(), dtype_of<T>());
  });
}

template <typename T>
double norm_of_row(const T* row, std::int64_t count, double order) {
  const auto magnitude = [row](std::int64_t i) -> double { return std::abs(row[i]); };
  if (order == std::numeric_limits<double>::infinity()) {
    return count == 0 ? 0 : reduce_range<MaxOp, double>(magnitude, 0, count);
  }
  if (order == -std::numeric_limits<double>::infinity()) {
    return reduce_range<MinOp, double>(magnitude, 0, count);
  }
  if (order == 0) {
    const auto present = [=](std::int64_t i) { return double(magnitude(i) != 0); };
    return reduce_range<SumOp, double>(present, 0, count);
  }
  if (order == 1) return reduce_range<SumOp, double>(magnitude, 0, count);
  if (order == 2) {
    const auto square = [row](std::int64_t i) { return squared_magnitude(row[i]); };
    return std::sqrt(reduce_range<SumOp, double>(square, 0, count));
  }
  const auto power = [=](std::int64_t i) { return std::pow(magnitude(i), order); };
  return std::pow(reduce_range<SumOp, double>(power, 0, count), 1 / order);
}

// linalg_vector_norm(self, ord, dim, keepdim, *, dtype)
void vector_norm_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const double order = scalar_arg(call, 1).to_double();
  with_wide_type(self, [&](auto type) {
    using T = decltype(type);
    reduce_rows<T, double>(
        call.outputs[0], self, reduced_dims(call, 2, self),
        [order](const T* row, std::int64_t count) { return norm_of_row(row, count, order); });
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
