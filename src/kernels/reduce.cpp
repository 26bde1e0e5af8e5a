// Sums, products, extrema, truth. Integers are computed in i64, f16 and bf16 in f32, rounded once.
#include "kernels/reduce.h"

#include <algorithm>

#include "base/fix.h"
#include "kernels/kernel_table.h"
#include "kernels/promotion.h"
#include "kernels/row_reduce.h"

namespace shardlab {

namespace {

constexpr unsigned kNoComplex = kIntegerKind | kRealKind;

// Down the columns, where the rows to be reduced lie side by side: false when they don't.
template <typename Op, typename T>
bool reduce_down(const Tensor& self, const DimMask& reduced, T* results) {
  const RowLayout layout(self, reduced);
  const std::int64_t columns = layout.columns();
  if (self.dtype() != dtype_of<T>() || layout.in_one_piece() || columns < 8) return false;
  const auto* data = reinterpret_cast<const T*>(readable_bytes(self));
  for (std::int64_t row = 0; row < layout.rows(); row += columns) {
    for (std::int64_t c = 0; c < columns; c += kReduceColumns<T>) {
      const ColumnBlock<T> block{data + layout.offset_of(row) + c, layout.column_stride(),
                                 std::min(kReduceColumns<T>, columns - c)};
      reduce_columns<Op>(block, layout.size(), results + row + c);
    }
  }
  return true;
}

// results[i] = Op over row i.
template <typename Op, typename T>
std::unique_ptr<T[]> reduce_with(const Tensor& self, const DimMask& reduced) {
  const RowLayout layout(self, reduced);
  auto results = scratch<T>(layout.rows());
  if (reduce_down<Op>(self, reduced, results.get())) return results;
  Rows<T> rows(self, reduced);
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    results[i] = reduce_row<Op>(rows.row(i), rows.size());
  }
  return results;
}

// In the output's dtype: sum(x, dtype) converts first.
template <typename Op>
void accumulate_kernel(const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  with_compute_type<kAllKinds>(out.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto results = reduce_with<Op, T>(self, reduced_dims(call, 1, self));
    store_row_major(out, results.get(), dtype_of<T>());
  });
}

void mean_kernel(const KernelCall& call) {
  const Tensor &out = call.outputs[0], &self = tensor_arg(call, 0);
  with_compute_type<kRealKind | kComplexKind>(out.dtype(), [&](auto type) {
    using T = decltype(type);
    const DimMask reduced = reduced_dims(call, 1, self);
    const RowLayout layout(self, reduced);
    const auto results = reduce_with<SumOp, T>(self, reduced);
    const T count = T(static_cast<double>(layout.size()));
    for (std::int64_t i = 0; i < layout.rows(); ++i) results[i] /= count;
    store_row_major(out, results.get(), dtype_of<T>());
  });
}

// Of an empty piece, the value of the stored dtype that changes no extremum; shape inference
// refuses empty wholes.
template <typename Op>
void extremum_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const DimMask reduced = reduced_dims(call, 1, self);
  if (RowLayout(self, reduced).size() == 0) {
    constexpr bool kLargest = std::is_same_v<Op, MaxOp>;
    return fill_tensor(call.outputs[0],
                       kLargest ? lowest_number(self.dtype()) : highest_number(self.dtype()));
  }
  with_compute_type<kNoComplex>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto results = reduce_with<Op, T>(self, reduced);
    store_row_major(call.outputs[0], results.get(), dtype_of<T>());
  });
}

template <typename T>
bool any_of_row(const T* row, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (truth(row[i])) return true;
  }
  return false;
}

template <typename T>
bool all_of_row(const T* row, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!truth(row[i])) return false;
  }
  return true;
}

// Unlike sums, an empty dim list reduces nothing here.
DimMask truth_dims(const KernelCall& call, const Tensor& self) {
  const Dims* dims = optional_dims_arg(call, 1);
  if (dims != nullptr && dims->empty()) return DimMask(self.shape().size(), 0);
  return reduced_dims(call, 1, self);
}

void any_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  with_compute_type<kAllKinds>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    reduce_rows<T, bool>(call.outputs[0], self, truth_dims(call, self), any_of_row<T>);
  });
}

void all_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  with_compute_type<kAllKinds>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    reduce_rows<T, bool>(call.outputs[0], self, truth_dims(call, self), all_of_row<T>);
  });
}

// The lowest index among equals; NaN wins.
template <typename Op, typename T>
std::int64_t index_of_extremum(const T* row, std::int64_t count) {
  if (count == 0) {
    fail(ErrorKind::kValue, Fix{"leave empty tensors out, or reduce another dim"},
         "an empty dim has no largest or smallest element");
  }
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < count && !is_nan(row[best]); ++i) {
    const T winner = Op::combine(row[best], row[i]);
    if (is_nan(winner) || winner != row[best]) best = i;
  }
  return best;
}

template <typename Op>
void index_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  with_compute_type<kNoComplex>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    reduce_rows<T, std::int64_t>(call.outputs[0], self, reduced_dims(call, 1, self),
                                 index_of_extremum<Op, T>);
  });
}

template <typename Op>
void extremum_with_index_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  with_compute_type<kNoComplex>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    Rows<T> rows(self, single_dim(int_arg(call, 1), self));
    const auto values = scratch<T>(rows.count());
    const auto indices = scratch<std::int64_t>(rows.count());
    for (std::int64_t i = 0; i < rows.count(); ++i) {
      const T* row = rows.row(i);
      indices[i] = index_of_extremum<Op>(row, rows.size());
      values[i] = row[indices[i]];
    }
    store_row_major(call.outputs[0], values.get(), dtype_of<T>());
    store_row_major(call.outputs[1], indices.get(), DType::kI64);
  });
}

}  // namespace

void add_reduce_kernels(KernelTable& table) {
  table.set(KernelId::kSum, accumulate_kernel<SumOp>);
  table.set(KernelId::kProd, accumulate_kernel<ProdOp>);
  table.set(KernelId::kMean, mean_kernel);
  table.set(KernelId::kAmax, extremum_kernel<MaxOp>);
  table.set(KernelId::kAmin, extremum_kernel<MinOp>);
  table.set(KernelId::kMax, extremum_kernel<MaxOp>);
  table.set(KernelId::kMin, extremum_kernel<MinOp>);
  table.set(KernelId::kAny, any_kernel);
  table.set(KernelId::kAll, all_kernel);
  table.set(KernelId::kArgmax, index_kernel<MaxOp>);
  table.set(KernelId::kArgmin, index_kernel<MinOp>);
  table.set(KernelId::kMaxDim, extremum_with_index_kernel<MaxOp>);
  table.set(KernelId::kMinDim, extremum_with_index_kernel<MinOp>);
}

}  // namespace shardlab
