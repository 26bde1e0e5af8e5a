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

// The same of rows that are columns side by side.
template <bool any>
void truth_of_columns(const InputLines<bool>& lines, bool* to) {
  const std::int64_t columns = lines.columns();
  std::fill_n(to, columns, !any);
  for (std::int64_t i = 0; i < lines.lines(); ++i) {
    const auto* line = reinterpret_cast<const std::uint8_t*>(lines.line(i));
    for (std::int64_t c = 0; c < columns; ++c) {
      const bool is_true = line[c] != 0;
      to[c] = any ? to[c] | is_true : to[c] & is_true;
    }
  }
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
  } else if (go_down_together(layout, layout)) {
    for_neighbours(layout, false, [&](const Neighbours& rows) {
      truth_of_columns<any>(InputLines<bool>(self, layout, rows), truths.get() + rows.first);
    });
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

// The place of the first element equal to `value`; `count` where there is none. Groups of elements
// are compared together, since a processor cannot predict where a search ends.
template <typename T>
std::int64_t index_of_value(const T* row, std::int64_t count, T value) {
  std::int64_t first = 0;
  for (; first + kReduceLanes <= count; first += kReduceLanes) {
    std::uint32_t found = 0;
    for (std::int64_t i = 0; i < kReduceLanes; i += kWidthOf<T>) {
      VectorOf<T> part;
      load_vector<T>(part, row + first + i);
      found |= bits_of<T>(part == value) << i;
    }
    if (found != 0) return first + std::countr_zero(found);
  }
  return std::find(row + first, row + count, value) - row;
}

// The lowest index among equals; NaN wins. Searched in the first leaf that holds the extremum.
template <typename Op, typename T>
std::int64_t index_of_extremum(const T* row, std::int64_t count) {
  if (count == 0) refuse_empty_dim();
  std::int64_t first = 0;
  T extremum = reduce_leaf<Op>(row, std::min(kReduceLeaf, count));
  for (std::int64_t i = kReduceLeaf; i < count && !is_nan(extremum); i += kReduceLeaf) {
    const T here = reduce_leaf<Op>(row + i, std::min(kReduceLeaf, count - i));
    first = Op::combine(here, extremum) == extremum ? first : i;
    extremum = Op::combine(extremum, here);
  }
  const T* leaf = row + first;
  const std::int64_t size = std::min(kReduceLeaf, count - first);
  if (is_nan(extremum)) return std::find_if(leaf, leaf + size, is_nan<T>) - row;
  return first + index_of_value(leaf, size, extremum);
}

// The extremum of each row and its index.
template <typename T>
struct Extrema {
  Scratch<T> values;
  Scratch<std::int64_t> indices;
};

// The best so far in columns side by side, and its row.
template <typename T>
struct BestSoFar {
  using Place = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  VectorOf<T> values;
  VectorOf<Place> places;

  // Only a better one replaces one above it; the first NaN stays.
  template <typename Op>
  void meet(const T* from, std::int64_t row) {
    VectorOf<T> here;
    load_vector<T>(here, from);
    take<Op>(here, (here != here) & (values == values), row);
  }
  // The same of numbers; `nan` is set where one is NaN.
  template <typename Op>
  void meet_numbers(const T* from, std::int64_t row, MaskOf<T>& nan) {
    VectorOf<T> here;
    load_vector<T>(here, from);
    nan |= here != here;
    take<Op>(here, MaskOf<T>{}, row);
  }

 private:
  template <typename Op>
  void take(const VectorOf<T>& here, const MaskOf<T>& anyway, std::int64_t row) {
    const auto better = std::is_same_v<Op, MaxOp> ? here > values : here < values;
    const auto wins = better | anyway;
    values = wins ? here : values;
    places = wins ? VectorOf<Place>{} + static_cast<Place>(row) : places;
  }
};

// The best of `size` rows of columns side by side, `step` elements apart. If there is a NaN, the
// first one is found by a second walk.
template <typename Op, typename T>
void meet_rows(BestSoFar<T>* best, const T* data, std::int64_t step, std::int64_t size,
               std::int64_t columns) {
  constexpr std::int64_t kWidth = kWidthOf<T>;
  const std::int64_t whole = columns / kWidth;
  T rest[kWidth] = {};
  const auto start = [&] {
    for (std::int64_t k = 0; k < whole; ++k) {
      best[k].places = VectorOf<typename BestSoFar<T>::Place>{};
      load_vector<T>(best[k].values, data + k * kWidth);
    }
    best[whole].places = VectorOf<typename BestSoFar<T>::Place>{};
    std::copy_n(data + whole * kWidth, columns % kWidth, rest);
    load_vector<T>(best[whole].values, static_cast<const T*>(rest));
  };
  start();
  std::int64_t i = 0;
  if constexpr (std::is_floating_point_v<T>) {
    MaskOf<T> nan{};
    for (; i < size; ++i) {
      MaskOf<T> here{};
      for (std::int64_t k = 0; k < whole; ++k) {
        best[k].template meet_numbers<Op>(data + i * step + k * kWidth, i, here);
      }
      nan |= here;
    }
    if (any_of<T>(nan)) {
      start();
      i = 0;
    }
  }
  for (; i < size; ++i) {
    for (std::int64_t k = 0; k < whole; ++k) {
      best[k].template meet<Op>(data + i * step + k * kWidth, i);
    }
  }
  for (i = 0; whole * kWidth < columns && i < size; ++i) {
    std::copy_n(data + i * step + whole * kWidth, columns % kWidth, rest);
    best[whole].template meet<Op>(rest, i);
  }
}

// Rows that are columns side by side, a stripe of them at a time.
template <typename Op, typename T>
void extrema_down(const T* data, std::int64_t step, std::int64_t size, std::int64_t columns,
                  T* values, std::int64_t* indices) {
  constexpr std::int64_t kMost = 2048, kWidth = kWidthOf<T>;
  const auto best = std::make_unique_for_overwrite<BestSoFar<T>[]>(
      static_cast<std::size_t>(std::min(kMost, columns) / kWidth + 1));
  for (std::int64_t start = 0; start < columns; start += kMost) {
    const std::int64_t wide = std::min(kMost, columns - start);
    meet_rows<Op>(best.get(), data + start, step, size, wide);
    for (std::int64_t c = 0; c < wide; ++c) {
      values[start + c] = best[c / kWidth].values[c % kWidth];
      indices[start + c] = best[c / kWidth].places[c % kWidth];
    }
  }
}

template <typename Op, typename T>
Extrema<T> extrema_of(const Tensor& self, const DimMask& dim) {
  RowLayout layout(self, dim);
  Extrema<T> found{scratch<T>(layout.rows()), scratch<std::int64_t>(layout.rows())};
  constexpr std::int64_t kFewest = 8, kLongest = std::numeric_limits<std::int32_t>::max();
  const std::int64_t columns = layout.columns();
  if (self.dtype() == dtype_of<T>() && columns >= kFewest && layout.size() < kLongest) {
    const auto* data = reinterpret_cast<const T*>(readable_bytes(self));
    for (std::int64_t row = 0; row < layout.rows(); row += columns) {
      extrema_down<Op>(data + layout.offset_of(row), layout.column_stride(), layout.size(), columns,
                       found.values.get() + row, found.indices.get() + row);
    }
    return found;
  }
  Rows<T> rows(self, std::move(layout));
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
