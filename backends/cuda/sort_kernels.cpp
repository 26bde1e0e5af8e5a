// Sorting and order statistics of a row. Runs of one element are merged to runs of two, of four and
// so on, in one launch for all rows and runs; where the first k are wanted, no run gets longer than
// that. Medians, k-th values and the most frequent ones are elements of sorted rows.
#include <algorithm>
#include <limits>

#include "backends/cuda/kernels.h"

namespace shardlab::cuda {

namespace {

using Equals = SearchCall::Equals;

// [rows, elements] in the compute dtype, and the old place of each element in its row.
struct Sorted {
  Tensor keys;
  Tensor places;
};

// Two runs each become one, of which `kept` elements stay.
Sorted merged(Ops& ops, const Sorted& runs, SortOrder order, std::int64_t run, std::int64_t kept) {
  MergeCall call{};
  call.compute = runs.keys.dtype();
  call.order = order;
  call.rows = runs.keys.size(0);
  call.size = runs.keys.size(1);
  call.run = run;
  call.kept = kept;
  call.to_size = call.size / (2 * run) * kept + std::min(call.size % (2 * run), kept);
  const Dims shape{call.rows, call.to_size};
  const Sorted to{empty(ops.device(), shape, call.compute),
                  empty(ops.device(), shape, DType::kI64)};
  call.from = readable(runs.keys);
  if (runs.places.defined()) call.stood = static_cast<const std::int64_t*>(readable(runs.places));
  call.to = writable(to.keys);
  call.places = static_cast<std::int64_t*>(writable(to.places));
  ops.merge(call);
  return to;
}

// The first `wanted` elements of each row, at least one.
Sorted sorted_rows(Ops& ops, const RowView& rows, SortOrder order, std::int64_t wanted) {
  const DType compute = compute_dtype_here(rows.tensor.dtype());
  const Tensor lined = as_contiguous(ops, rows.tensor, compute);
  const TensorMeta flat = contiguous_meta(Dims{rows.rows, rows.size}, compute);
  Sorted sorted{lined.as_view(flat, lined.offset()), {}};
  std::int64_t run = 1;
  do {  // once for a single element, too, to set its place
    const std::int64_t kept = std::min(2 * run, wanted);
    sorted = merged(ops, sorted, order, run, kept);
    run = kept;
  } while (sorted.keys.size(1) > run);
  return sorted;
}

void put_sorted(Ops& ops, const KernelCall& call, const DimMask& dim, std::int64_t wanted,
                const Scalar& descending) {
  if (call.outputs[0].numel() == 0) return;
  const auto order = descending.to_bool() ? SortOrder::kDescending : SortOrder::kAscending;
  const Sorted sorted = sorted_rows(ops, RowView(tensor_arg(call, 0), dim), order, wanted);
  const auto put = [&](const Tensor& out, const Tensor& values) {
    const Tensor rows = RowView(out, dim).tensor;
    convert(ops, rows, values.as_view(contiguous_meta(rows.shape(), values.dtype()), 0));
  };
  put(call.outputs[0], sorted.keys);
  put(call.outputs[1], sorted.places);
}

// (self, dim, descending) from argument `first` on.
template <std::size_t first>
void sort(Ops& ops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const DimMask dim = single_dim(int_arg(call, first), self);
  put_sorted(ops, call, dim, RowView(self, dim).size, scalar_arg(call, first + 1));
}

// topk(self, k, dim, largest, sorted); always sorted.
void topk(Ops& ops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const DimMask dim = single_dim(int_arg(call, 2), self);
  put_sorted(ops, call, dim, self.dim() == 0 ? 1 : int_arg(call, 1), scalar_arg(call, 3));
}

// For each of `wanted`, so many for each sorted row: number of elements before it.
Tensor found(Ops& ops, const Tensor& sorted, const Tensor& wanted, std::int64_t per_row,
             SortOrder order, Equals equals) {
  const Tensor out = empty(ops.device(), wanted.shape(), DType::kI64);
  SearchCall call{};
  call.equals = equals;
  call.compute = sorted.dtype();
  call.order = order;
  call.size = sorted.shape().back();
  call.count = wanted.numel();
  call.per_row = per_row;
  if (call.count == 0) return out;
  call.sorted = readable(sorted);
  call.wanted = readable(wanted);
  call.out = static_cast<std::int64_t*>(writable(out));
  ops.search(call);
  return out;
}

// The elements at `index` [rows, 1] in sorted rows, and their old places.
void put_picked(Ops& ops, const KernelCall& call, const Sorted& sorted, const Tensor& index) {
  put_rows(ops, call.outputs[0], picked(ops, sorted.keys, index));
  if (call.outputs.size() > 1) put_rows(ops, call.outputs[1], picked(ops, sorted.places, index));
}

// kthvalue(self, k, dim, keepdim)
void kthvalue(Ops& ops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const RowView rows(self, single_dim(int_arg(call, 2), self));
  const std::int64_t k = int_arg(call, 1);
  if (rows.rows == 0) return;
  const Tensor index = empty(ops.device(), Dims{rows.rows, 1}, DType::kI64);
  fill(ops, index, Scalar(k - 1));
  put_picked(ops, call, sorted_rows(ops, rows, SortOrder::kAscending, k), index);
}

enum class Missing { kWins, kLeftOut };

// The place of the median in each sorted row: the lower one of two in the middle, of all elements
// or of the numbers; the first NaN, which is behind the numbers, where one wins or all are.
template <Missing missing>
Tensor median_index(Ops& ops, const Tensor& keys) {
  const std::int64_t size = keys.size(1);
  const Dims shape{keys.size(0), 1};
  const DType integer = DType::kI64;
  const Scalar middle((size - 1) / 2);
  if (is_integral(keys.dtype())) {
    const Tensor index = empty(ops.device(), shape, integer);
    fill(ops, index, middle);
    return index;
  }
  const Tensor nan = empty(ops.device(), shape, keys.dtype());
  fill(ops, nan, Scalar(std::numeric_limits<double>::quiet_NaN()));
  const Tensor numbers = found(ops, keys, nan, 1, SortOrder::kAscending, Equals::kLeftOut);
  if (missing == Missing::kLeftOut) {
    const Tensor last = computed(ops, Element::kSub, integer, shape, {numbers, Scalar(1)});
    return computed(ops, Element::kDivTrunc, integer, shape, {last, Scalar(2)});
  }
  const Tensor all = empty(ops.device(), shape, DType::kBool);
  const LocalArg compared[] = {numbers, Scalar(size)};
  pointwise(ops, Element::kEq, integer, all, compared);
  return computed(ops, Element::kWhere, integer, shape, {all, middle, numbers});
}

template <Missing missing>
void put_median(Ops& ops, const KernelCall& call, const RowView& rows) {
  if (rows.rows == 0) return;
  const Sorted sorted = sorted_rows(ops, rows, SortOrder::kAscending, rows.size);
  put_picked(ops, call, sorted, median_index<missing>(ops, sorted.keys));
}

template <Missing missing>
void median_along(Ops& ops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  put_median<missing>(ops, call, RowView(self, single_dim(int_arg(call, 1), self)));
}

// Of all elements; of none NaN, or the least integer.
template <Missing missing>
void median_of_all(Ops& ops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  if (self.numel() > 0) {
    return put_median<missing>(ops, call, RowView(self, DimMask(self.shape().size(), 1)));
  }
  const bool narrow = self.dtype() == DType::kI32;
  const Scalar least(narrow ? std::int64_t{std::numeric_limits<std::int32_t>::lowest()}
                            : std::numeric_limits<std::int64_t>::lowest());
  const Scalar nan(std::numeric_limits<double>::quiet_NaN());
  fill(ops, call.outputs[0], is_integral(compute_dtype_here(self.dtype())) ? least : nan);
}

// mode(self, dim, keepdim): the least among the most frequent values, at its last place. Sorting
// puts equals next to each other; the one with most equals before it ends the longest run. No NaN
// equals another one. NaN is the largest, but the least where the row begins with it.
void mode(Ops& ops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const RowView rows(self, single_dim(int_arg(call, 1), self));
  if (rows.rows == 0) return;
  const SortOrder order = SortOrder::kNanFirst;
  const Sorted sorted = sorted_rows(ops, rows, order, rows.size);
  const Tensor& keys = sorted.keys;
  const Dims& shape = keys.shape();
  const Tensor firsts = found(ops, keys, keys, rows.size, order, Equals::kLeftOut);
  const Tensor before =
      computed(ops, Element::kSub, DType::kI64, shape, {numbered(ops, Dims{1, rows.size}), firsts});
  const Tensor nan = empty(ops.device(), shape, DType::kBool);
  const LocalArg compared[] = {keys, keys};
  pointwise(ops, Element::kNe, keys.dtype(), nan, compared);
  const Tensor equals =
      computed(ops, Element::kWhere, DType::kI64, shape, {nan, Scalar(0), before});
  const Extremum most = extremum_with_index(ops, Fold::kMax, RowView(equals, DimMask{0, 1}));
  const Dims one_each{rows.rows, 1};
  const TensorMeta column = contiguous_meta(one_each, DType::kI64);
  const Tensor nans =
      computed(ops, Element::kWhere, DType::kI64, shape, {nan, Scalar(1), Scalar(0)});
  const Tensor first_number =
      fold(ops, Fold::kSum, DType::kI64, RowView(nans, DimMask{0, 1})).as_view(column, 0);
  const Tensor first_place =
      sorted.places.as_view({{rows.rows, 1}, {rows.size, 1}, sorted.places.dtype()}, 0);
  const auto choose = [&](Element test, const Tensor& tested, const LocalArg& yes,
                          const LocalArg& no) {
    const Tensor holds = empty(ops.device(), one_each, DType::kBool);
    const LocalArg operands[] = {tested, Scalar(0)};
    pointwise(ops, test, DType::kI64, holds, operands);
    return computed(ops, Element::kWhere, DType::kI64, one_each, {holds, yes, no});
  };
  const Tensor least = choose(Element::kEq, first_place, Scalar(0), first_number);
  put_picked(
      ops, call, sorted,
      choose(Element::kGt, most.values.as_view(column, 0), most.indices.as_view(column, 0), least));
}

// bucketize(self, boundaries, *, out_int32, right): number of boundaries that are below, or not
// above.
void bucketize(Ops& ops, const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const DType wide = DType::kF64;
  const Tensor boundaries = as_contiguous(ops, tensor_arg(call, 1), wide);
  Tensor wanted;
  if (const Tensor* self = optional_tensor_arg(call, 0)) {
    wanted = as_contiguous(ops, *self, wide);
  } else {
    wanted = empty(ops.device(), out.shape(), wide);
    fill(ops, wanted, Scalar(scalar_arg(call, 0).to_double()));
  }
  const Equals equals = scalar_arg(call, 3).to_bool() ? Equals::kCounted : Equals::kLeftOut;
  convert(ops, out, found(ops, boundaries, wanted, wanted.numel(), SortOrder::kAscending, equals));
}

}  // namespace

void add_sort_kernels(CudaKernelTable& table) {
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

}  // namespace shardlab::cuda
