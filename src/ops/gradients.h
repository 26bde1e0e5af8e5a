// gradients.h - the gradient column of the rows: small programs over other ops, on global values,
// so that placements follow by propagation. One gradient per tensor argument, in schema order.
#pragma once

#include "schema/gradient_reads.h"
#include "schema/op_row.h"

namespace shardlab::grad {

using Gradients = std::vector<DTensor>;

/// Gives a row the gradient program of its op, if there is one.
void set_gradient(OpRow& row);
/// What the gradient program of a row reads of a call; everything, when it is in no row here.
const GradientReads& reads_of(const OpRow& row);
/// True for ops with a gradient program of their own; composites are differentiated through their
/// parts.
bool has_gradient(std::string_view op);
/// Full names, in the order of the gradient column.
std::vector<std::string_view> ops_with_gradients();

// Broadcasting undone: sums the dims that broadcasting added, then casts to the input's dtype.
DTensor sum_to(Calls& calls, const DTensor& gradient, const DTensor& input);
/// With `dims` whole on every rank: views refuse to stretch or remove a dim of size 1 that is cut.
DTensor gathered(Calls& calls, const DTensor& value, const Dims& dims);
/// `gradient` in `input`'s dtype.
DTensor cast_like(Calls& calls, const DTensor& gradient, const DTensor& input);

// Pointwise, two tensors.
Gradients add(const GradContext& context);
Gradients sub(const GradContext& context);
Gradients mul(const GradContext& context);
Gradients div(const GradContext& context);
Gradients maximum(const GradContext& context);
Gradients minimum(const GradContext& context);
Gradients pow_tensors(const GradContext& context);
Gradients where(const GradContext& context);

// Pointwise, a tensor and numbers.
Gradients pass(const GradContext& context);     ///< add.Scalar, clone, _to_copy, alias
Gradients scale(const GradContext& context);    ///< mul.Scalar
Gradients unscale(const GradContext& context);  ///< div.Scalar
Gradients rsub_scalar(const GradContext& context);
Gradients pow_scalar(const GradContext& context);
Gradients scalar_pow(const GradContext& context);
Gradients clamp(const GradContext& context);
Gradients masked_fill(const GradContext& context);
Gradients fill(const GradContext& context);  ///< what does not depend on the old value; steps
Gradients copy(const GradContext& context);

// Pointwise, one tensor.
Gradients neg(const GradContext& context);
Gradients abs(const GradContext& context);
Gradients exp(const GradContext& context);
Gradients log(const GradContext& context);
Gradients log1p(const GradContext& context);
Gradients expm1(const GradContext& context);
Gradients sqrt(const GradContext& context);
Gradients rsqrt(const GradContext& context);
Gradients reciprocal(const GradContext& context);
Gradients square(const GradContext& context);
Gradients sin(const GradContext& context);
Gradients cos(const GradContext& context);
Gradients tanh(const GradContext& context);
Gradients sigmoid(const GradContext& context);
Gradients relu(const GradContext& context);
Gradients gelu(const GradContext& context);
Gradients silu(const GradContext& context);

Gradients erf(const GradContext& context);
Gradients exp2(const GradContext& context);
Gradients log2(const GradContext& context);
Gradients log10(const GradContext& context);
Gradients tan(const GradContext& context);
Gradients atan(const GradContext& context);
Gradients leaky_relu(const GradContext& context);
Gradients softplus(const GradContext& context);
Gradients clamp_max(const GradContext& context);
Gradients clamp_min(const GradContext& context);
Gradients addcmul(const GradContext& context);
Gradients addcdiv(const GradContext& context);
Gradients lerp_scalar(const GradContext& context);
Gradients lerp_tensor(const GradContext& context);
Gradients native_dropout(const GradContext& context);

// Elements kept, chosen or reordered.
Gradients tril(const GradContext& context);
Gradients triu(const GradContext& context);
Gradients flip(const GradContext& context);
Gradients cumsum(const GradContext& context);
Gradients roll(const GradContext& context);
Gradients extremum_along(const GradContext& context);  ///< max.dim, min.dim
Gradients sort(const GradContext& context);
Gradients sort_stable(const GradContext& context);
Gradients topk(const GradContext& context);

// Matrix products.
Gradients dot(const GradContext& context);
Gradients mv(const GradContext& context);
Gradients mm(const GradContext& context);
Gradients bmm(const GradContext& context);
Gradients addmm(const GradContext& context);
Gradients baddbmm(const GradContext& context);

Gradients convolution(const GradContext& context);

// Reductions and normalisations.
Gradients sum_all(const GradContext& context);
Gradients sum_dims(const GradContext& context);
Gradients mean_all(const GradContext& context);
Gradients mean_dims(const GradContext& context);
Gradients amax_amin(const GradContext& context);    ///< max and min too
Gradients var(const GradContext& context);          ///< var.correction
Gradients deviation(const GradContext& context);    ///< std.correction
Gradients softmax(const GradContext& context);      ///< _softmax
Gradients log_softmax(const GradContext& context);  ///< _log_softmax
Gradients layer_norm(const GradContext& context);   ///< native_layer_norm
Gradients embedding(const GradContext& context);
Gradients nll_loss(const GradContext& context);  ///< nll_loss_forward

// Shapes.
Gradients reshape(const GradContext& context);  ///< view, _unsafe_view, reshape
Gradients transpose(const GradContext& context);
Gradients t(const GradContext& context);
Gradients permute(const GradContext& context);
Gradients squeeze(const GradContext& context);  ///< every overload
Gradients unsqueeze(const GradContext& context);
Gradients expand(const GradContext& context);
Gradients slice(const GradContext& context);
Gradients select(const GradContext& context);
Gradients cat(const GradContext& context);
Gradients stack(const GradContext& context);
Gradients split(const GradContext& context);  ///< split.Tensor, split_with_sizes
Gradients unbind(const GradContext& context);
Gradients gather(const GradContext& context);
Gradients scatter_add(const GradContext& context);
Gradients scatter(const GradContext& context);  ///< scatter.src, scatter.value
Gradients index_select(const GradContext& context);
Gradients index(const GradContext& context);  ///< index.Tensor
Gradients index_put(const GradContext& context);

}  // namespace shardlab::grad
