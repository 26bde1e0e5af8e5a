// Reductions, softmax, norms, running sums: folds over rows with pointwise steps between them.
#include <limits>

#include "backends/cuda/kernels.h"
#include "base/fix.h"
#include "kernels/promotion.h"

namespace shardlab::cuda {

void put_rows(Ops& ops, const Tensor& out, const Tensor& values) {
  convert(ops, out, values.as_view(contiguous_meta(out.shape(), values.dtype()), values.offset()));
}

Extremum extremum_with_index(Ops& ops, Fold kind, const RowView& rows) {
  if (rows.size == 0 && rows.rows > 0) {
    fail(ErrorKind::kValue, Fix{"reduce a dim that has elements"},
         "an empty dim has no largest or smallest element");
  }
  const DType compute = compute_dtype_here(rows.tensor.dtype());
  const Extremum found{empty(ops.device(), Dims{rows.rows}, compute),
                       empty(ops.device(), Dims{rows.rows}, DType::kI64)};
  FoldCall call{};
  call.fold = kind;
  call.compute = compute;
  call.out = writable(found.values);
  call.indices = static_cast<std::int64_t*>(writable(found.indices));
  call.rows = rows_of(rows);
  fold_rows(ops, call);
  return found;
}

namespace {

Tensor of(Ops& ops, Element op, DType compute, const Tensor& a) {
  return computed(ops, op, compute, a.shape(), {a});
}
Tensor of(Ops& ops, Element op, DType compute, const Tensor& a, const LocalArg& b) {
  return computed(ops, op, compute, a.shape(), {a, b});
}
void into(Ops& ops, Element op, DType compute, const Tensor& out, const LocalArg& a,
          const LocalArg& b) {
  const LocalArg operands[] = {a, b};
  pointwise(ops, op, compute, out, operands);
}

Tensor converted_first(Ops& ops, const Tensor& self, DType to) {
  return converts_first(self.dtype(), to) ? as_contiguous(ops, self, to) : self;
}

// In the output's dtype: sum(x, dtype) converts first.
template <Fold kind>
void accumulate(Ops& ops, const KernelCall& call) {
  const Tensor self = converted_first(ops, tensor_arg(call, 0), call.outputs[0].dtype());
  const RowView rows(self, reduced_dims(call, 1, self));
  put_rows(ops, call.outputs[0],
           fold(ops, kind, compute_dtype_here(call.outputs[0].dtype()), rows));
}

void mean(Ops& ops, const KernelCall& call) {
  const Tensor self = converted_first(ops, tensor_arg(call, 0), call.outputs[0].dtype());
  const DType compute = compute_dtype_here(call.outputs[0].dtype());
  const RowView rows(self, reduced_dims(call, 1, self));
  const Tensor total = fold(ops, Fold::kSum, compute, rows);
  put_rows(ops, call.outputs[0],
           of(ops, Element::kDiv, compute, total, Scalar(static_cast<double>(rows.size))));
}

template <Fold kind>
void extremum(Ops& ops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const RowView rows(self, reduced_dims(call, 1, self));
  if (rows.size == 0) {  // the value of the stored dtype that changes no extremum
    return fill(ops, call.outputs[0],
                kind == Fold::kMax ? lowest_number(self.dtype()) : highest_number(self.dtype()));
  }
  put_rows(ops, call.outputs[0], fold(ops, kind, compute_dtype_here(self.dtype()), rows));
}

template <Fold kind>
void truth(Ops& ops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  // Unlike sums, an empty dim list reduces nothing here.
  const Dims* dims = optional_dims_arg(call, 1);
  const DimMask reduced = dims != nullptr && dims->empty() ? DimMask(self.shape().size(), 0)
                                                           : reduced_dims(call, 1, self);
  put_rows(ops, call.outputs[0],
           fold(ops, kind, compute_dtype_here(self.dtype()), RowView(self, reduced)));
}

template <Fold kind>
void index_of(Ops& ops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const RowView rows(self, reduced_dims(call, 1, self));
  put_rows(ops, call.outputs[0], extremum_with_index(ops, kind, rows).indices);
}

template <Fold kind>
void with_index(Ops& ops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const RowView rows(self, single_dim(int_arg(call, 1), self));
  const Extremum found = extremum_with_index(ops, kind, rows);
  put_rows(ops, call.outputs[0], found.values);
  put_rows(ops, call.outputs[1], found.indices);
}

enum class Spread { kVariance, kDeviation };

// In f64, rounded once.
template <Spread spread>
void variance(Ops& ops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  compute_dtype_here(self.dtype());
  const RowView rows(self, reduced_dims(call, 1, self));
  const DType wide = DType::kF64;
  const auto count = static_cast<double>(rows.size);
  const Tensor means =
      of(ops, Element::kDiv, wide, fold(ops, Fold::kSum, wide, rows), Scalar(count));
  const Tensor away = of(ops, Element::kSub, wide, rows.tensor, rows.over_rows(means));
  const Tensor squares = of(ops, Element::kSquare, wide, away);
  const DimMask inner = [&] {
    DimMask mask(squares.shape().size(), 1);
    for (std::size_t i = 0; i < rows.kept.size(); ++i) mask[i] = 0;
    return mask;
  }();
  Tensor result = fold(ops, Fold::kSum, wide, RowView(squares, inner));
  const double divisor = std::max(count - correction_of(call), 0.0);
  result = of(ops, Element::kDiv, wide, result, Scalar(divisor));
  if (spread == Spread::kDeviation) result = of(ops, Element::kSqrt, wide, result);
  put_rows(ops, call.outputs[0], result);
  if (call.outputs.size() > 1) put_rows(ops, call.outputs[1], means);
}

// linalg_vector_norm(self, ord, dim, keepdim, *, dtype)
void vector_norm(Ops& ops, const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  compute_dtype_here(self.dtype());
  const double order = scalar_arg(call, 1).to_double();
  const double infinity = std::numeric_limits<double>::infinity();
  const DType wide = DType::kF64;
  const DimMask reduced = reduced_dims(call, 2, self);
  const Tensor sizes = of(ops, Element::kAbs, wide, self);
  const auto folded = [&](Fold kind, const Tensor& x) {
    return fold(ops, kind, wide, RowView(x, reduced));
  };
  Tensor result;
  if (order == infinity) {
    // Of no elements, 0.
    result = of(ops, Element::kMaximum, wide, folded(Fold::kMax, sizes), Scalar(0.0));
  } else if (order == -infinity) {
    result = folded(Fold::kMin, sizes);
  } else if (order == 0) {
    result = folded(Fold::kSum, of(ops, Element::kNe, wide, sizes, Scalar(0.0)));
  } else if (order == 1) {
    result = folded(Fold::kSum, sizes);
  } else if (order == 2) {
    result =
        of(ops, Element::kSqrt, wide, folded(Fold::kSum, of(ops, Element::kSquare, wide, sizes)));
  } else {
    const Tensor powers = of(ops, Element::kPow, wide, sizes, Scalar(order));
    result = of(ops, Element::kPow, wide, folded(Fold::kSum, powers), Scalar(1 / order));
  }
  put_rows(ops, call.outputs[0], result);
}

// Rows along one dim, with that dim last; the output is seen the same way.
struct AlongDim {
  AlongDim(const KernelCall& call, const Tensor& self, std::int64_t dim)
      : compute(compute_dtype_here(self.dtype())),
        mask(single_dim(dim, self)),
        rows(self, mask),
        out(RowView(call.outputs[0], mask).tensor) {}

  /// One value per row of a tensor laid out like the rows.
  Tensor folded(Ops& ops, Fold kind, const Tensor& x) const {
    DimMask last(x.shape().size(), 0);
    if (!last.empty()) last.back() = 1;
    return rows.over_rows(fold(ops, kind, compute, RowView(x, last)));
  }

  DType compute;
  DimMask mask;
  RowView rows;
  Tensor out;
};

void softmax(Ops& ops, const KernelCall& call) {
  const AlongDim along(call, tensor_arg(call, 0), int_arg(call, 1));
  const Tensor largest = along.folded(ops, Fold::kMax, along.rows.tensor);
  const Tensor shifted = of(ops, Element::kSub, along.compute, along.rows.tensor, largest);
  const Tensor powers = of(ops, Element::kExp, along.compute, shifted);
  into(ops, Element::kDiv, along.compute, along.out, powers, along.folded(ops, Fold::kSum, powers));
}

void log_softmax(Ops& ops, const KernelCall& call) {
  const AlongDim along(call, tensor_arg(call, 0), int_arg(call, 1));
  const Tensor largest = along.folded(ops, Fold::kMax, along.rows.tensor);
  const Tensor shifted = of(ops, Element::kSub, along.compute, along.rows.tensor, largest);
  const Tensor powers = of(ops, Element::kExp, along.compute, shifted);
  const Tensor total = along.folded(ops, Fold::kSum, powers);
  into(ops, Element::kSub, along.compute, along.out, shifted,
       of(ops, Element::kLog, along.compute, total));
}

// (grad_output, output, dim, input_dtype)
void softmax_backward(Ops& ops, const KernelCall& call) {
  const Tensor& grad = tensor_arg(call, 0);
  const AlongDim along(call, grad, int_arg(call, 2));
  const Tensor output = RowView(tensor_arg(call, 1), along.mask).tensor;
  const Tensor product = of(ops, Element::kMul, along.compute, along.rows.tensor, output);
  const Tensor dot = along.folded(ops, Fold::kSum, product);
  const Tensor away = of(ops, Element::kSub, along.compute, along.rows.tensor, dot);
  into(ops, Element::kMul, along.compute, along.out, away, output);
}

void log_softmax_backward(Ops& ops, const KernelCall& call) {
  const Tensor& grad = tensor_arg(call, 0);
  const AlongDim along(call, grad, int_arg(call, 2));
  const Tensor output = RowView(tensor_arg(call, 1), along.mask).tensor;
  const Tensor total = along.folded(ops, Fold::kSum, along.rows.tensor);
  const Tensor powers = of(ops, Element::kExp, along.compute, output);
  const Tensor scaled = of(ops, Element::kMul, along.compute, powers, total);
  into(ops, Element::kSub, along.compute, along.out, along.rows.tensor, scaled);
}

// (self, dim) -> the running values along the dim, and for extrema their places.
template <Scan kind>
void scan(Ops& ops, const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const Tensor self = converted_first(ops, tensor_arg(call, 0), out.dtype());
  const DimMask mask = single_dim(int_arg(call, 1), self);
  const RowView rows(self, mask);
  const Tensor values = empty(ops.device(), rows.tensor.shape(), compute_dtype_here(out.dtype()));
  ScanCall scan{};
  scan.scan = kind;
  scan.compute = values.dtype();
  scan.out = writable(values);
  scan.rows = rows_of(rows);
  Tensor stood;
  if (call.outputs.size() > 1) {
    stood = empty(ops.device(), rows.tensor.shape(), DType::kI64);
    scan.indices = static_cast<std::int64_t*>(writable(stood));
  }
  if (scan.rows.shape.count > 0) ops.scan(scan);
  convert(ops, RowView(out, mask).tensor, values);
  if (stood.defined()) convert(ops, RowView(call.outputs[1], mask).tensor, stood);
}

// native_layer_norm(input, normalized_shape, weight, bias, eps) -> output, mean, rstd
void layer_norm(Ops& ops, const KernelCall& call) {
  const Tensor& input = tensor_arg(call, 0);
  const DType compute = compute_dtype_here(input.dtype());
  const DimMask mask = normalized_dims(input, call, 1);
  const RowView rows(input, mask);
  const Scalar count(static_cast<double>(rows.size));
  const auto mean_of = [&](const Tensor& x) {
    const Tensor total = fold(ops, Fold::kSum, compute, RowView(x, mask));
    return of(ops, Element::kDiv, compute, total, count);
  };
  const Tensor means = mean_of(input);
  const Tensor away = of(ops, Element::kSub, compute, input, rows.over_rows(means));
  const Tensor variances = mean_of(of(ops, Element::kSquare, compute, away));
  const Scalar epsilon(scalar_arg(call, 4).to_double());
  const Tensor rstds =
      of(ops, Element::kRsqrt, compute, of(ops, Element::kAdd, compute, variances, epsilon));
  Tensor result = of(ops, Element::kMul, compute, away, rows.over_rows(rstds));
  if (const Tensor* weight = optional_tensor_arg(call, 2)) {
    result = of(ops, Element::kMul, compute, result, *weight);
  }
  if (const Tensor* bias = optional_tensor_arg(call, 3)) {
    result = of(ops, Element::kAdd, compute, result, *bias);
  }
  convert(ops, call.outputs[0], result);
  put_rows(ops, call.outputs[1], means);
  put_rows(ops, call.outputs[2], rstds);
}

// The gradients of weight and bias, which add up in f64 over the rows.
void affine_gradients(Ops& ops, const KernelCall& call, const Tensor& normalized, DimMask mask) {
  const Tensor& grad = tensor_arg(call, 0);
  for (unsigned char& dim : mask) dim = dim == 0 ? 1 : 0;
  const auto put = [&](const Tensor& out, const Tensor& terms) {
    if (out.defined()) {
      put_rows(ops, out, fold(ops, Fold::kSum, DType::kF64, RowView(terms, mask)));
    }
  };
  put(call.outputs[1], of(ops, Element::kMul, normalized.dtype(), normalized, grad));
  put(call.outputs[2], grad);
}

// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias,
// output_mask): an output that is not wanted is undefined.
void layer_norm_backward(Ops& ops, const KernelCall& call) {
  const Tensor &grad = tensor_arg(call, 0), &input = tensor_arg(call, 1);
  const DType compute = compute_dtype_here(input.dtype());
  const DimMask mask = normalized_dims(input, call, 2);
  const RowView rows(input, mask);
  const Scalar count(static_cast<double>(rows.size));
  const auto row_values = [&](std::size_t argument) {
    return rows.over_rows(as_contiguous(ops, tensor_arg(call, argument), compute));
  };
  const auto mean_of = [&](const Tensor& x) {
    const Tensor total = fold(ops, Fold::kSum, compute, RowView(x, mask));
    return rows.over_rows(of(ops, Element::kDiv, compute, total, count));
  };
  const Tensor rstd = row_values(4);
  const Tensor away = of(ops, Element::kSub, compute, input, row_values(3));
  const Tensor normalized = of(ops, Element::kMul, compute, away, rstd);
  if (call.outputs[0].defined()) {
    const Tensor* weight = optional_tensor_arg(call, 5);
    const Tensor scaled = weight == nullptr ? of(ops, Element::kMul, compute, grad, Scalar(1.0))
                                            : of(ops, Element::kMul, compute, grad, *weight);
    const Tensor along = mean_of(of(ops, Element::kMul, compute, scaled, normalized));
    const Tensor level = of(ops, Element::kSub, compute, scaled, mean_of(scaled));
    const Tensor tilt = of(ops, Element::kMul, compute, normalized, along);
    into(ops, Element::kMul, compute, call.outputs[0], of(ops, Element::kSub, compute, level, tilt),
         rstd);
  }
  affine_gradients(ops, call, normalized, mask);
}

}  // namespace

void add_row_kernels(CudaKernelTable& table) {
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
  table.set(KernelId::kVar, variance<Spread::kVariance>);
  table.set(KernelId::kVarMean, variance<Spread::kVariance>);
  table.set(KernelId::kStd, variance<Spread::kDeviation>);
  table.set(KernelId::kStdMean, variance<Spread::kDeviation>);
  table.set(KernelId::kVectorNorm, vector_norm);
  table.set(KernelId::kSoftmax, softmax);
  table.set(KernelId::kLogSoftmax, log_softmax);
  table.set(KernelId::kSoftmaxBackward, softmax_backward);
  table.set(KernelId::kLogSoftmaxBackward, log_softmax_backward);
  table.set(KernelId::kCumsum, scan<Scan::kSum>);
  table.set(KernelId::kCumprod, scan<Scan::kProduct>);
  table.set(KernelId::kLogcumsumexp, scan<Scan::kLogOfSum>);
  table.set(KernelId::kCummax, scan<Scan::kLargest>);
  table.set(KernelId::kCummin, scan<Scan::kSmallest>);
  table.set(KernelId::kNativeLayerNorm, layer_norm);
  table.set(KernelId::kNativeLayerNormBackward, layer_norm_backward);
}

}  // namespace shardlab::cuda
