// Vector norms: in f64, rounded once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kernel_table.h"
#include "kernels/row_reduce.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

// Norms of the rows; orders that are not roots of a sum of powers are first.
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
    auto sums =
        of(SumOp{}, [](T value, std::int64_t) -> double { return squared_magnitude(value); });
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

void add_vector_norm_kernels(KernelTable& table) {
  table.set(KernelId::kVectorNorm, vector_norm_kernel);
}

}  // namespace shardlab
