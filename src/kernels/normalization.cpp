// Softmax and layer norm as folds over rows with pointwise steps between them. The CPU has kernels
// of its own for these six, which read a row once.
#include "kernels/element_types.h"
#include "kernels/kernel_table.h"
#include "kernels/rows.h"

namespace shardlab {

namespace {

// Steps of one kernel in its compute dtype; `rows` are the dims that are folded.
struct RowSteps {
  Loops& loops;
  DType compute;
  DimMask rows;

  Tensor of(Element function, const Tensor& a) const {
    return computed(loops, function, compute, a.shape(), {a});
  }
  Tensor of(Element function, const Tensor& a, const LocalArg& b) const {
    return computed(loops, function, compute, a.shape(), {a, b});
  }
  void into(Element function, const Tensor& out, const LocalArg& a, const LocalArg& b) const {
    loops.run(function, compute, out, {a, b});
  }
  /// One value for each row, of size 1 along its dims.
  Tensor folded(Fold fold, const Tensor& x) const {
    Dims shape = x.shape();
    for (std::size_t d = 0; d < rows.size(); ++d) shape[d] = rows[d] ? 1 : shape[d];
    return shardlab::folded(loops, fold, compute, x, rows, shape);
  }
  Tensor mean(const Tensor& x) const {
    const Scalar count(static_cast<double>(row_size(x, rows)));
    return of(Element::kDiv, folded(Fold::kSum, x), count);
  }
};

// (self, dim, half_to_float)
template <bool logarithm>
void softmax(Loops& loops, const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  if (self.numel() == 0) return;  // of integers, too
  const RowSteps steps{loops, compute_dtype(self.dtype()), single_dim(int_arg(call, 1), self)};
  const Tensor shifted = steps.of(Element::kSub, self, steps.folded(Fold::kMax, self));
  const Tensor powers = steps.of(Element::kExp, shifted);
  const Tensor sum = steps.folded(Fold::kSum, powers);
  if (!logarithm) return steps.into(Element::kDiv, out, powers, sum);
  steps.into(Element::kSub, out, shifted, steps.of(Element::kLog, sum));
}

// (grad_output, output, dim, input_dtype)
template <bool logarithm>
void softmax_backward(Loops& loops, const KernelCall& call) {
  const Tensor &grad = tensor_arg(call, 0), &output = tensor_arg(call, 1), &out = call.outputs[0];
  const RowSteps steps{loops, compute_dtype(grad.dtype()), single_dim(int_arg(call, 2), grad)};
  if (logarithm) {
    const Tensor sum = steps.folded(Fold::kSum, grad);
    const Tensor powers = steps.of(Element::kExp, output);
    return steps.into(Element::kSub, out, grad, steps.of(Element::kMul, powers, sum));
  }
  const Tensor sum = steps.folded(Fold::kSum, steps.of(Element::kMul, grad, output));
  steps.into(Element::kMul, out, steps.of(Element::kSub, grad, sum), output);
}

// native_layer_norm(input, normalized_shape, weight, bias, eps) -> output, mean, rstd
void layer_norm(Loops& loops, const KernelCall& call) {
  const Tensor& input = tensor_arg(call, 0);
  const RowSteps steps{loops, compute_dtype(input.dtype()), normalized_dims(input, call, 1)};
  const Tensor means = steps.mean(input);
  const Tensor away = steps.of(Element::kSub, input, means);
  const Tensor variances = steps.mean(steps.of(Element::kSquare, away));
  const Scalar epsilon(scalar_arg(call, 4).to_double());
  const Tensor rstds = steps.of(Element::kRsqrt, steps.of(Element::kAdd, variances, epsilon));
  Tensor result = steps.of(Element::kMul, away, rstds);
  if (const Tensor* weight = optional_tensor_arg(call, 2)) {
    result = steps.of(Element::kMul, result, *weight);
  }
  if (const Tensor* bias = optional_tensor_arg(call, 3)) {
    result = steps.of(Element::kAdd, result, *bias);
  }
  loops.convert(call.outputs[0], result);
  put_rows(loops, call.outputs[1], means);
  put_rows(loops, call.outputs[2], rstds);
}

// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias,
// output_mask): an output that is not wanted is undefined. Gradients of weight and bias add up in
// f64 over the rows.
void layer_norm_backward(Loops& loops, const KernelCall& call) {
  const Tensor &grad = tensor_arg(call, 0), &input = tensor_arg(call, 1);
  const RowSteps steps{loops, compute_dtype(input.dtype()), normalized_dims(input, call, 2)};
  const auto& outputs = call.outputs;
  Dims shape = input.shape();
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = steps.rows[d] ? 1 : shape[d];
  const auto row_values = [&](std::size_t argument) {
    const Tensor values = as_contiguous(loops, tensor_arg(call, argument), steps.compute);
    return values.as_view(contiguous_meta(shape, steps.compute), values.offset());
  };
  const Tensor rstd = row_values(4);
  const Tensor normal =
      steps.of(Element::kMul, steps.of(Element::kSub, input, row_values(3)), rstd);
  if (outputs[0].defined()) {
    const Tensor* weight = optional_tensor_arg(call, 5);
    const Tensor scaled = weight == nullptr ? grad : steps.of(Element::kMul, grad, *weight);
    const Tensor along = steps.mean(steps.of(Element::kMul, scaled, normal));
    const Tensor level = steps.of(Element::kSub, scaled, steps.mean(scaled));
    const Tensor tilt = steps.of(Element::kMul, normal, along);
    steps.into(Element::kMul, outputs[0], steps.of(Element::kSub, level, tilt), rstd);
  }
  DimMask others = steps.rows;
  for (unsigned char& dim : others) dim = dim == 0 ? 1 : 0;
  if (outputs[1].defined()) {
    const Tensor terms = steps.of(Element::kMul, normal, grad);
    loops.fold(Fold::kSum, DType::kF64, terms, others, outputs[1]);
  }
  if (outputs[2].defined()) loops.fold(Fold::kSum, DType::kF64, grad, others, outputs[2]);
}

}  // namespace

void add_normalization_kernels(KernelTable& table) {
  table.set(KernelId::kSoftmax, softmax<false>);
  table.set(KernelId::kLogSoftmax, softmax<true>);
  table.set(KernelId::kSoftmaxBackward, softmax_backward<false>);
  table.set(KernelId::kLogSoftmaxBackward, softmax_backward<true>);
  table.set(KernelId::kNativeLayerNorm, layer_norm);
  table.set(KernelId::kNativeLayerNormBackward, layer_norm_backward);
}

}  // namespace shardlab
