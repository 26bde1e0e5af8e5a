// scatter_reduce: values that an index sends to one place are reduced there, with the old value or
// without it.
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/functors.h"
#include "kernels/index_access.h"
#include "kernels/kernel_table.h"
#include "kernels/scatter_reduction.h"

namespace shardlab {
namespace {

using Reduction = ScatterReduction;

/// The one that counts; NaN counts before every number.
template <typename T>
T foremost(Reduction reduction, T old, T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) return value;
    }
    const bool first = reduction == Reduction::kLargest ? value > old : value < old;
    return first ? value : old;
  }
  return old;  // complex numbers have no order: refused by the row
}

template <typename T>
T combined(Reduction reduction, T old, T value) {
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kMean:
      return sum_of(old, value);
    case Reduction::kProduct:
      return product_of(old, value);
    default:
      return foremost(reduction, old, value);
  }
}

/// The mean of a sum; of integers rounded down.
template <typename T>
T shared_by(T sum, std::int64_t count) {
  if constexpr (std::is_integral_v<T>) {
    const std::int64_t quotient = sum / count;
    return quotient - ((sum % count != 0) && (sum < 0) ? 1 : 0);
  } else if constexpr (std::is_floating_point_v<T>) {
    return sum / static_cast<T>(count);
  } else {
    return sum / static_cast<typename T::value_type>(count);
  }
}

/// A position of the index, by dims.
void advance(Dims& place, const Dims& shape) {
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (++place[d] < shape[d]) return;
    place[d] = 0;
  }
}

std::int64_t offset_of(const Dims& place, const Dims& stride) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < place.size(); ++d) offset += place[d] * stride[d];
  return offset;
}

template <typename T>
void reduce_into(const KernelCall& call) {
  const Tensor out = at_least_one_dim(call.outputs[0]),
               index = at_least_one_dim(tensor_arg(call, 2));
  const Tensor src = at_least_one_dim(tensor_arg(call, 3));
  const std::size_t dim = wrapped_dim(int_arg(call, 1), out.shape().size());
  const Reduction reduction = scatter_reduction_named(*optional_text_arg(call, 4)).value();
  const bool with_self = scalar_arg(call, 5).to_bool();
  const auto result = scratch<T>(out.numel());
  load_row_major(result.get(), dtype_of<T>(), tensor_arg(call, 0));
  std::vector<std::int64_t> counts(static_cast<std::size_t>(out.numel()), with_self ? 1 : 0);
  const RowMajor<std::int64_t> indices(index);
  const RowMajor<T> values(src);
  const Dims stride = contiguous_strides(out.shape()), from = contiguous_strides(src.shape());
  Dims place(index.shape().size(), 0);
  for (std::int64_t i = 0; i < index.numel(); ++i, advance(place, index.shape())) {
    Dims target = place;
    target[dim] = index_in_range(indices.data()[i], out.size(dim));
    const auto to = static_cast<std::size_t>(offset_of(target, stride));
    const T value = values.data()[offset_of(place, from)];
    result[to] = counts[to] == 0 ? value : combined(reduction, result[to], value);
    ++counts[to];
  }
  for (std::size_t i = 0; reduction == Reduction::kMean && i < counts.size(); ++i) {
    if (counts[i] > 1) result[i] = shared_by(result[i], counts[i]);
  }
  store_row_major(out, result.get(), dtype_of<T>());
}

// scatter_reduce(self, dim, index, src, reduce, include_self)
void scatter_reduce_kernel(const KernelCall& call) {
  with_compute_type<kAllKinds>(call.outputs[0].dtype(),
                               [&](auto type) { reduce_into<decltype(type)>(call); });
}

}  // namespace

void add_scatter_reduce_kernels(KernelTable& table) {
  table.set(KernelId::kScatterReduce, scatter_reduce_kernel);
}

}  // namespace shardlab
