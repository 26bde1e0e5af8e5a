// Sorting along one dim, and statistics by order: medians, k-th values and the most frequent ones
// are elements of sorted rows; places among sorted boundaries.
#include <limits>

#include "kernels/element_types.h"
#include "kernels/kernel_table.h"
#include "kernels/rows.h"

namespace shardlab {

namespace {

void put_sorted(Loops& loops, const KernelCall& call, const DimMask& dim, std::int64_t wanted,
                const Scalar& descending) {
  if (call.outputs[0].numel() == 0) return;
  const auto order = descending.to_bool() ? SortOrder::kDescending : SortOrder::kAscending;
  const Sorted sorted = loops.sorted(tensor_arg(call, 0), dim, order, wanted);
  const auto put = [&](const Tensor& out, const Tensor& values) {
    const Tensor rows = RowLayout(out, dim).permuted();
    loops.convert(rows, values.as_view(contiguous_meta(rows.shape(), values.dtype()), 0));
  };
  put(call.outputs[0], sorted.keys);
  put(call.outputs[1], sorted.places);
}

// (self, dim, descending) from argument `first` on.
template <std::size_t first>
void sort(Loops& loops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const DimMask dim = single_dim(int_arg(call, first), self);
  put_sorted(loops, call, dim, row_size(self, dim), scalar_arg(call, first + 1));
}

// topk(self, k, dim, largest, sorted); always sorted.
void topk(Loops& loops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const DimMask dim = single_dim(int_arg(call, 2), self);
  put_sorted(loops, call, dim, self.dim() == 0 ? 1 : int_arg(call, 1), scalar_arg(call, 3));
}

// For each of `wanted`, so many for each sorted row: number of elements before it.
Tensor found(Loops& loops, const Tensor& sorted, const Tensor& wanted, std::int64_t per_row,
             SortOrder order, Equals equals) {
  const Tensor out = empty(loops.device(), wanted.shape(), DType::kI64);
  loops.search({sorted, wanted, per_row, order, equals, out});
  return out;
}

// The elements at `index` [rows, 1] in sorted rows, and their old places.
void put_picked(Loops& loops, const KernelCall& call, const Sorted& sorted, const Tensor& index) {
  const IndexWords words{"sort"};
  put_rows(loops, call.outputs[0], picked(loops, sorted.keys, 1, index, words));
  if (call.outputs.size() == 1) return;
  put_rows(loops, call.outputs[1], picked(loops, sorted.places, 1, index, words));
}

// kthvalue(self, k, dim, keepdim)
void kthvalue(Loops& loops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const DimMask dim = single_dim(int_arg(call, 2), self);
  const std::int64_t k = int_arg(call, 1), rows = call.outputs[0].numel();
  if (rows == 0) return;
  const Tensor index = filled(loops, Dims{rows, 1}, DType::kI64, Scalar(k - 1));
  put_picked(loops, call, loops.sorted(self, dim, SortOrder::kAscending, k), index);
}

enum class Missing { kWins, kLeftOut };

// The place of the median in each sorted row: the lower one of two in the middle, of all elements
// or of the numbers; the first NaN, which is behind the numbers, where one wins or all are.
template <Missing missing>
Tensor median_index(Loops& loops, const Tensor& keys) {
  const std::int64_t size = keys.size(1);
  const Dims shape{keys.size(0), 1};
  const DType integer = DType::kI64;
  const Scalar middle((size - 1) / 2);
  if (is_integral(keys.dtype())) return filled(loops, shape, integer, middle);
  const Scalar missing_number(std::numeric_limits<double>::quiet_NaN());
  const Tensor nan = filled(loops, shape, keys.dtype(), missing_number);
  const Tensor numbers = found(loops, keys, nan, 1, SortOrder::kAscending, Equals::kLeftOut);
  if (missing == Missing::kLeftOut) {
    const Tensor last = computed(loops, Element::kSub, integer, shape, {numbers, Scalar(1)});
    return computed(loops, Element::kDivTrunc, integer, shape, {last, Scalar(2)});
  }
  const Tensor all = tested(loops, Element::kEq, integer, shape, {numbers, Scalar(size)});
  return computed(loops, Element::kWhere, integer, shape, {all, middle, numbers});
}

template <Missing missing>
void put_median(Loops& loops, const KernelCall& call, const DimMask& dim) {
  const Tensor& self = tensor_arg(call, 0);
  if (call.outputs[0].numel() == 0) return;
  const Sorted sorted = loops.sorted(self, dim, SortOrder::kAscending, row_size(self, dim));
  put_picked(loops, call, sorted, median_index<missing>(loops, sorted.keys));
}

template <Missing missing>
void median_along(Loops& loops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  put_median<missing>(loops, call, single_dim(int_arg(call, 1), self));
}

// The median of all elements; NaN or the least integer if there are none.
template <Missing missing>
void median_of_all(Loops& loops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  if (self.numel() > 0) return put_median<missing>(loops, call, DimMask(self.shape().size(), 1));
  const bool narrow = self.dtype() == DType::kI32;
  const Scalar least(narrow ? std::int64_t{std::numeric_limits<std::int32_t>::lowest()}
                            : std::numeric_limits<std::int64_t>::lowest());
  const Scalar nan(std::numeric_limits<double>::quiet_NaN());
  loops.fill(call.outputs[0], is_integral(compute_dtype(self.dtype())) ? least : nan);
}

// mode(self, dim, keepdim): the least among the most frequent values, at its last place. Sorting
// puts equals next to each other; the one with most equals before it ends the longest run. No NaN
// equals another one. NaN is the largest, but the least where the row begins with it.
void mode(Loops& loops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const DimMask dim = single_dim(int_arg(call, 1), self), inner{0, 1};
  const std::int64_t rows = call.outputs[0].numel(), size = row_size(self, dim);
  if (rows == 0) return;
  const SortOrder order = SortOrder::kNanFirst;
  const Sorted sorted = loops.sorted(self, dim, order, size);
  const Tensor& keys = sorted.keys;
  const Dims& shape = keys.shape();
  const Tensor firsts = found(loops, keys, keys, size, order, Equals::kLeftOut);
  const Tensor before =
      computed(loops, Element::kSub, DType::kI64, shape, {numbered(loops, Dims{1, size}), firsts});
  const Tensor nan = tested(loops, Element::kNe, keys.dtype(), shape, {keys, keys});
  const Tensor equals =
      computed(loops, Element::kWhere, DType::kI64, shape, {nan, Scalar(0), before});
  const Dims one_each{rows, 1};
  const Tensor last = places_of_extrema(loops, Fold::kMax, equals, inner);
  const Tensor most = picked(loops, equals, 1, last, {"mode"});
  const Tensor nans =
      computed(loops, Element::kWhere, DType::kI64, shape, {nan, Scalar(1), Scalar(0)});
  const Tensor first_number = folded(loops, Fold::kSum, DType::kI64, nans, inner, one_each);
  const Tensor first_place =
      sorted.places.as_view({{rows, 1}, {size, 1}, sorted.places.dtype()}, 0);
  const auto choose = [&](Element test, const Tensor& number, const LocalArg& yes,
                          const LocalArg& no) {
    const Tensor holds = tested(loops, test, DType::kI64, one_each, {number, Scalar(0)});
    return computed(loops, Element::kWhere, DType::kI64, one_each, {holds, yes, no});
  };
  const Tensor least = choose(Element::kEq, first_place, Scalar(0), first_number);
  put_picked(loops, call, sorted, choose(Element::kGt, most, last, least));
}

// bucketize(self, boundaries, *, out_int32, right): number of boundaries that are below, or not
// above.
void bucketize(Loops& loops, const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const DType wide = DType::kF64;
  const Tensor boundaries = as_contiguous(loops, tensor_arg(call, 1), wide);
  Tensor wanted;
  if (const Tensor* self = optional_tensor_arg(call, 0)) {
    wanted = as_contiguous(loops, *self, wide);
  } else {
    wanted = filled(loops, out.shape(), wide, Scalar(scalar_arg(call, 0).to_double()));
  }
  const Equals equals = scalar_arg(call, 3).to_bool() ? Equals::kCounted : Equals::kLeftOut;
  loops.convert(out,
                found(loops, boundaries, wanted, wanted.numel(), SortOrder::kAscending, equals));
}

}  // namespace

void add_sorting_kernels(KernelTable& table) {
  table.set(KernelId::kSort, sort<1>);
  table.set(KernelId::kSortStable, sort<2>);
  table.set(KernelId::kTopk, topk);
  table.set(KernelId::kKthvalue, kthvalue);
  table.set(KernelId::kMedian, median_of_all<Missing::kWins>);
  table.set(KernelId::kNanMedian, median_of_all<Missing::kLeftOut>);
  table.set(KernelId::kMedianDim, median_along<Missing::kWins>);
  table.set(KernelId::kNanMedianDim, median_along<Missing::kLeftOut>);
  table.set(KernelId::kMode, mode);
  table.set(KernelId::kBucketize, bucketize);
}

}  // namespace shardlab
