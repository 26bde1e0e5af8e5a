// Sums, products, means, extrema, truth, variances and norms of rows, and running values along
// them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/element_types.h"
#include "kernels/kernel_table.h"
#include "kernels/promotion.h"
#include "kernels/rows.h"

namespace shardlab {

namespace {

// The operand of a reduction to `to`: `self`, or a copy where its elements convert first.
Tensor converted_first(Loops& loops, const Tensor& self, DType to) {
  return converts_first(self.dtype(), to) ? as_contiguous(loops, self, to) : self;
}

// In the output's dtype: sum(x, dtype) converts first.
template <Fold kind>
void accumulate(Loops& loops, const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const Tensor self = converted_first(loops, tensor_arg(call, 0), out.dtype());
  loops.fold(kind, compute_dtype(out.dtype()), self, reduced_dims(call, 1, self), out);
}

// Rounded once: mean(x, dtype) converts what is left.
void mean(Loops& loops, const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  const DimMask reduced = reduced_dims(call, 1, self);
  const DType compute = compute_dtype(out.dtype());
  const Tensor sums = folded(loops, Fold::kSum, compute, self, reduced, out.shape());
  const Scalar count(static_cast<double>(row_size(self, reduced)));
  loops.run(Element::kDiv, compute, out, {sums, count});
}

// An empty piece gives the value of the stored dtype that changes no extremum; shape inference
// refuses empty wholes.
template <Fold kind>
void extremum(Loops& loops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const DimMask reduced = reduced_dims(call, 1, self);
  if (row_size(self, reduced) == 0) {
    return loops.fill(call.outputs[0], kind == Fold::kMax ? lowest_number(self.dtype())
                                                          : highest_number(self.dtype()));
  }
  loops.fold(kind, compute_dtype(self.dtype()), self, reduced, call.outputs[0]);
}

template <Fold kind>
void truth(Loops& loops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  // Unlike sums, an empty dim list reduces nothing here.
  const Dims* dims = optional_dims_arg(call, 1);
  const DimMask reduced = dims != nullptr && dims->empty() ? DimMask(self.shape().size(), 0)
                                                           : reduced_dims(call, 1, self);
  loops.fold(kind, compute_dtype(self.dtype()), self, reduced, call.outputs[0]);
}

template <Fold kind>
void index_of(Loops& loops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  put_rows(loops, call.outputs[0],
           places_of_extrema(loops, kind, self, reduced_dims(call, 1, self)));
}

template <Fold kind>
void with_index(Loops& loops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const Tensor places = places_of_extrema(loops, kind, self, single_dim(int_arg(call, 1), self));
  put_rows(loops, call.outputs[1], places);
  if (self.dim() == 0) return loops.convert(call.outputs[0], self);
  const std::size_t dim = wrapped_dim(int_arg(call, 1), self.shape().size());
  put_rows(loops, call.outputs[0], picked(loops, self, dim, places, {"max"}));
}

// (self, dim) -> the running values along the dim, and for extrema their places.
template <Scan kind>
void scan(Loops& loops, const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const Tensor self = converted_first(loops, tensor_arg(call, 0), out.dtype());
  const Tensor places = call.outputs.size() > 1 ? call.outputs[1] : Tensor();
  loops.scan(kind, self, single_dim(int_arg(call, 1), self), out, places);
}

enum class Measure { kVariance, kDeviation };

// In f64, rounded once.
template <Measure measure>
void variance(Loops& loops, const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  const DimMask reduced = reduced_dims(call, 1, self);
  const DType wide = DType::kF64;
  const Tensor means =
      empty(loops.device(), out.shape(), is_complex(self.dtype()) ? DType::kC128 : wide);
  Tensor squares = empty(loops.device(), out.shape(), wide);
  loops.spread(self, reduced, means, squares);
  const auto count = static_cast<double>(row_size(self, reduced));
  const Scalar free(std::max(count - correction_of(call), 0.0));
  const bool root = measure == Measure::kDeviation;
  loops.run(Element::kDiv, wide, root ? squares : out, {squares, free});
  if (root) loops.run(Element::kSqrt, wide, out, {squares});
  if (call.outputs.size() > 1) loops.convert(call.outputs[1], means);
}

// linalg_vector_norm(self, ord, dim, keepdim, *, dtype), in f64, rounded once.
void vector_norm(Loops& loops, const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  const double order = scalar_arg(call, 1).to_double();
  const double infinity = std::numeric_limits<double>::infinity();
  const DType wide = DType::kF64;
  const DimMask reduced = reduced_dims(call, 2, self);
  const auto mapped = [&](Element function, std::initializer_list<LocalArg> operands) {
    return computed(loops, function, wide, self.shape(), operands);
  };
  Tensor sizes = self;
  if (order != 2 || is_complex(self.dtype())) {
    sizes = empty(loops.device(), self.shape(), wide);
    loops.run(Element::kAbs, is_complex(self.dtype()) ? DType::kC128 : wide, sizes, {self});
  }
  if (std::isinf(order)) {
    // The norm of no elements is 0.
    if (self.numel() == 0) return loops.fill(out, Scalar(order > 0 ? 0.0 : infinity));
    return loops.fold(order > 0 ? Fold::kMax : Fold::kMin, wide, sizes, reduced, out);
  }
  if (order == 0) sizes = mapped(Element::kNe, {sizes, Scalar(0.0)});
  if (order == 0 || order == 1) return loops.fold(Fold::kSum, wide, sizes, reduced, out);
  const Tensor powers = order == 2 ? mapped(Element::kSquare, {sizes})
                                   : mapped(Element::kPow, {sizes, Scalar(order)});
  const Tensor sums = folded(loops, Fold::kSum, wide, powers, reduced, out.shape());
  if (order == 2) return loops.run(Element::kSqrt, wide, out, {sums});
  loops.run(Element::kPow, wide, out, {sums, Scalar(1 / order)});
}

}  // namespace

void add_reduction_kernels(KernelTable& table) {
  table.set(KernelId::kSum, accumulate<Fold::kSum>);
  table.set(KernelId::kProd, accumulate<Fold::kProduct>);
  table.set(KernelId::kMean, mean);
  table.set(KernelId::kAmax, extremum<Fold::kMax>);
  table.set(KernelId::kAmin, extremum<Fold::kMin>);
  table.set(KernelId::kMax, extremum<Fold::kMax>);
  table.set(KernelId::kMin, extremum<Fold::kMin>);
  table.set(KernelId::kAny, truth<Fold::kAny>);
  table.set(KernelId::kAll, truth<Fold::kAll>);
  table.set(KernelId::kArgmax, index_of<Fold::kMax>);
  table.set(KernelId::kArgmin, index_of<Fold::kMin>);
  table.set(KernelId::kMaxDim, with_index<Fold::kMax>);
  table.set(KernelId::kMinDim, with_index<Fold::kMin>);
  table.set(KernelId::kCumsum, scan<Scan::kSum>);
  table.set(KernelId::kCumprod, scan<Scan::kProduct>);
  table.set(KernelId::kLogcumsumexp, scan<Scan::kLogOfSum>);
  table.set(KernelId::kCummax, scan<Scan::kLargest>);
  table.set(KernelId::kCummin, scan<Scan::kSmallest>);
  table.set(KernelId::kVar, variance<Measure::kVariance>);
  table.set(KernelId::kVarMean, variance<Measure::kVariance>);
  table.set(KernelId::kStd, variance<Measure::kDeviation>);
  table.set(KernelId::kStdMean, variance<Measure::kDeviation>);
  table.set(KernelId::kVectorNorm, vector_norm);
}

}  // namespace shardlab
