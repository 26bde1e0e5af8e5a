// Sums, products, extrema, truth. Integers are computed in i64, f16 and bf16 in f32, rounded once.
#include "kernels/row_reduce.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "base/fix.h"
#include "kernels/kernel_table.h"
#include "kernels/promotion.h"

namespace shardlab {

namespace {

constexpr unsigned kNoComplex = kIntegerKind | kRealKind;

// In the output's dtype: sum(x, dtype) converts first.
template <typename Op>
void accumulate_kernel(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const Tensor self = converted_first(tensor_arg(call, 0), out.dtype());
  with_compute_type<kAllKinds>(out.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto results = reduce_with<Op, T>(self, RowLayout(self, reduced_dims(call, 1, self)));
    store_row_major(out, results.get(), dtype_of<T>());
  });
}

void mean_kernel(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const Tensor self = converted_first(tensor_arg(call, 0), out.dtype());
  with_compute_type<kRealKind | kComplexKind>(out.dtype(), [&](auto type) {
    using T = decltype(type);
    const RowLayout layout(self, reduced_dims(call, 1, self));
    const auto results = reduce_with<SumOp, T>(self, layout);
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
  const RowLayout layout(self, reduced_dims(call, 1, self));
  if (layout.size() == 0) {
    constexpr bool kLargest = std::is_same_v<Op, MaxOp>;
    return fill_tensor(call.outputs[0],
                       kLargest ? lowest_number(self.dtype()) : highest_number(self.dtype()));
  }
  with_compute_type<kNoComplex>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto results = reduce_with<Op, T>(self, layout);
    store_row_major(call.outputs[0], results.get(), dtype_of<T>());
  });
}

// Unlike sums, an empty dim list reduces nothing here.
DimMask truth_dims(const KernelCall& call, const Tensor& self) {
  const Dims* dims = optional_dims_arg(call, 1);
  if (dims != nullptr && dims->empty()) return DimMask(self.shape().size(), 0);
  return reduced_dims(call, 1, self);
}

// Every byte but 0 is true, as in bytes that are viewed as bools. Bytes that are all 0 are equal to
// themselves moved on by one.
bool is_any(const std::byte* bytes, std::size_t count) {
  return count > 0 && (bytes[0] != std::byte{0} || std::memcmp(bytes, bytes + 1, count - 1) != 0);
}
bool is_all(const std::byte* bytes, std::size_t count) {
  return count == 0 || std::memchr(bytes, 0, count) == nullptr;
}

// Whether some elements of a row are not zero, or all: a part at a time, until it is known.
template <bool any>
bool truth_of_row(const std::byte* from, DType dtype, std::int64_t count) {
  constexpr std::int64_t kPart = 4096;
  std::byte truths[kPart];
  for (std::int64_t first = 0; first < count; first += kPart) {
    const std::int64_t size = std::min(kPart, count - first);
    const std::byte* part = from + first * item_bytes(dtype);
    if (dtype != DType::kBool) {
      convert_run({truths, 1, DType::kBool}, {part, 1, dtype}, size);
      part = truths;
    }
    const auto bytes = static_cast<std::size_t>(size);
    if (any ? is_any(part, bytes) : !is_all(part, bytes)) return any;
  }
  return !any;
}

template <bool any>
void truth_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const RowLayout layout(self, truth_dims(call, self));
  const auto truths = scratch<bool>(layout.rows());
  if (layout.in_one_piece()) {
    const std::byte* bytes = readable_bytes(self);
    for (std::int64_t i = 0; i < layout.rows(); ++i) {
      const std::byte* row = bytes + layout.offset_of(i) * item_bytes(self.dtype());
      truths[i] = truth_of_row<any>(row, self.dtype(), layout.size());
    }
  } else {
    Rows<bool> rows(self, layout);
    for (std::int64_t i = 0; i < rows.count(); ++i) {
      const auto* row = reinterpret_cast<const std::byte*>(rows.row(i));
      truths[i] = truth_of_row<any>(row, DType::kBool, rows.size());
    }
  }
  store_row_major(call.outputs[0], truths.get(), DType::kBool);
}

[[noreturn]] void refuse_empty_dim() {
  fail(ErrorKind::kValue, Fix{"leave empty tensors out, or reduce another dim"},
       "an empty dim has no largest or smallest element");
}

// The lowest index among equals; NaN wins.
template <typename Op, typename T>
std::int64_t index_of_extremum(const T* row, std::int64_t count) {
  if (count == 0) refuse_empty_dim();
  std::int64_t best = 0;
  for (std::int64_t i = 0; i < count && !is_nan(row[best]); ++i) {
    const bool better = std::is_same_v<Op, MaxOp> ? row[i] > row[best] : row[i] < row[best];
    if (better || is_nan(row[i])) best = i;
  }
  return best;
}

// The extremum of each row and its index.
template <typename T>
struct Extrema {
  Scratch<T> values;
  Scratch<std::int64_t> indices;
};

template <typename Op, typename T>
Extrema<T> extrema_of(const Tensor& self, const DimMask& dim) {
  Rows<T> rows(self, dim);
  Extrema<T> found{scratch<T>(rows.count()), scratch<std::int64_t>(rows.count())};
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const T* row = rows.row(i);
    found.indices[i] = index_of_extremum<Op>(row, rows.size());
    found.values[i] = row[found.indices[i]];
  }
  return found;
}

template <typename Op>
void index_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  with_compute_type<kNoComplex>(self.dtype(), [&](auto type) {
    const auto found = extrema_of<Op, decltype(type)>(self, reduced_dims(call, 1, self));
    store_row_major(call.outputs[0], found.indices.get(), DType::kI64);
  });
}

template <typename Op>
void extremum_with_index_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  with_compute_type<kNoComplex>(self.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto found = extrema_of<Op, T>(self, single_dim(int_arg(call, 1), self));
    store_row_major(call.outputs[0], found.values.get(), dtype_of<T>());
    store_row_major(call.outputs[1], found.indices.get(), DType::kI64);
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
  table.set(KernelId::kAny, truth_kernel<true>);
  table.set(KernelId::kAll, truth_kernel<false>);
  table.set(KernelId::kArgmax, index_kernel<MaxOp>);
  table.set(KernelId::kArgmin, index_kernel<MinOp>);
  table.set(KernelId::kMaxDim, extremum_with_index_kernel<MaxOp>);
  table.set(KernelId::kMinDim, extremum_with_index_kernel<MinOp>);
}

}  // namespace shardlab
