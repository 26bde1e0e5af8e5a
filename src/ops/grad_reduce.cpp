// Gradients of reductions, norms, losses and products, as programs over other ops. The gradient of
// a reduction is the reduced gradient spread over the dims that were reduced, times the derivative
// there; spreading a replica or a pending sum costs no communication, so that the placements follow
// from the rows of the ops called.
#include "ops/arguments.h"
#include "ops/gradients.h"

#include <algorithm>

namespace shardlab::grad {

namespace {

const DTensor& input(const GradContext& context, std::size_t index) {
  return context.inputs[index].tensor();
}

// Reduced dims of a dim-list argument; none or an empty list means all. A tensor without dims has
// none.
Dims reduced_dims(const Argument& dims, std::size_t ndim) {
  Dims result;
  if (ndim == 0) return result;
  if (dims.is_scalar()) {
    result.push_back(dims.to_int());
  } else if (dims.is_ints()) {
    result = dims.ints();
  }
  if (result.empty()) {
    for (std::size_t i = 0; i < ndim; ++i) result.push_back(static_cast<std::int64_t>(i));
  }
  for (std::int64_t& dim : result) dim = wrap_dim(dim, ndim);
  std::sort(result.begin(), result.end());
  return result;
}

// A reduced value beside its input: dims put back, then broadcast.
DTensor unreduce(Calls& calls, DTensor value, const Dims& dims, bool kept) {
  if (kept) return value;
  for (const std::int64_t dim : dims) value = calls.one("aten::unsqueeze", {value, dim});
  return value;
}

DTensor spread(const GradContext& context, const Dims& dims, bool kept) {
  const DTensor& x = input(context, 0);
  const DTensor gradient = kept ? gathered(context.calls, context.grads[0], dims)
                                : unreduce(context.calls, context.grads[0], dims, kept);
  const DTensor whole = context.calls.one("aten::expand", {gradient, x.shape()});
  return cast_like(context.calls, whole, x);
}

DTensor per_element(const GradContext& context, const DTensor& whole, const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    count *= input(context, 0).shape()[static_cast<std::size_t>(dim)];
  }
  return context.calls.one("aten::div.Scalar", {whole, count});
}

Dims all_dims(const DTensor& x) { return reduced_dims(Argument(), x.ndim()); }

}  // namespace

DTensor gathered(Calls& calls, const DTensor& value, const Dims& dims) {
  if (!value.distributed()) return value;
  Placements placements = value.spec()->placements();
  for (Placement& placement : placements) {
    const bool reduced =
        placement.is_shard() && std::find(dims.begin(), dims.end(), placement.dim) != dims.end();
    if (reduced) placement = Placement::replicate();
  }
  if (placements == value.spec()->placements()) return value;
  return calls.redistribute(value, placements);
}

Gradients sum_all(const GradContext& context) {
  const DTensor& x = input(context, 0);
  const DTensor whole = context.calls.one("aten::expand", {context.grads[0], x.shape()});
  return {cast_like(context.calls, whole, x)};
}

Gradients sum_dims(const GradContext& context) {
  const Dims dims = reduced_dims(context.inputs[1], input(context, 0).ndim());
  return {spread(context, dims, context.inputs[2].to_bool())};
}

Gradients mean_all(const GradContext& context) {
  return {per_element(context, sum_all(context)[0], all_dims(input(context, 0)))};
}

Gradients mean_dims(const GradContext& context) {
  const Dims dims = reduced_dims(context.inputs[1], input(context, 0).ndim());
  return {per_element(context, spread(context, dims, context.inputs[2].to_bool()), dims)};
}

// Equal maxima share the gradient.
Gradients amax_amin(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& x = input(context, 0);
  const bool all = context.inputs.size() == 1;  // max and min have no dim
  const Dims dims = all ? all_dims(x) : reduced_dims(context.inputs[1], x.ndim());
  const bool kept = !all && context.inputs[2].to_bool();
  const DTensor extreme = unreduce(calls, context.outputs[0].tensor(), dims, kept);
  const DTensor gradient = unreduce(calls, context.grads[0], dims, kept);
  const DTensor chosen =
      calls.one("aten::_to_copy", {calls.one("aten::eq.Tensor", {x, extreme}), x.dtype()});
  const DTensor count = calls.one("aten::sum.dim_IntList", {chosen, dims, true});
  const DTensor share = calls.one("aten::div.Tensor", {gradient, count});
  return {calls.one("aten::mul.Tensor", {chosen, share})};
}

Gradients var(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& x = input(context, 0);
  const Dims dims = reduced_dims(context.inputs[1], x.ndim());
  const double correction = context.inputs[2].is_none() ? 1.0 : context.inputs[2].to_double();
  double count = 1;
  for (const std::int64_t dim : dims) {
    count *= static_cast<double>(x.shape()[static_cast<std::size_t>(dim)]);
  }
  const DTensor gradient = unreduce(calls, context.grads[0], dims, context.inputs[3].to_bool());
  const DTensor mean = calls.one("aten::mean.dim", {x, dims, true});
  const DTensor distance = calls.one("aten::sub.Tensor", {x, mean});
  const DTensor scaled =
      calls.one("aten::mul.Scalar", {gradient, 2.0 / std::max(count - correction, 0.0)});
  return {calls.one("aten::mul.Tensor", {distance, scaled})};
}

// Half the variance's over the deviation; where nothing deviates, 0.
Gradients deviation(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& result = context.outputs[0].tensor();
  const DTensor doubled = calls.one("aten::mul.Scalar", {result, 2});
  const DTensor of_variance = calls.one("aten::div.Tensor", {context.grads[0], doubled});
  const DTensor none = calls.one("aten::eq.Scalar", {result, 0});
  const DTensor gradient = calls.one("aten::masked_fill.Scalar", {of_variance, none, 0});
  return var({calls, context.inputs, context.outputs, {&gradient, 1}, context.needs});
}

Gradients softmax(const GradContext& context) {
  return {context.calls.one("aten::_softmax_backward_data",
                            {context.grads[0], context.outputs[0].tensor(), context.inputs[1],
                             input(context, 0).dtype()})};
}

Gradients log_softmax(const GradContext& context) {
  return {context.calls.one("aten::_log_softmax_backward_data",
                            {context.grads[0], context.outputs[0].tensor(), context.inputs[1],
                             input(context, 0).dtype()})};
}

Gradients layer_norm(const GradContext& context) {
  Gradients gradients(3);
  if (!context.grads[0].defined()) return gradients;
  const ArgumentList mask = {context.needs(0), context.needs(1), context.needs(2)};
  const Results results =
      context.calls("aten::native_layer_norm_backward",
                    {context.grads[0], context.inputs[0], context.inputs[1], context.outputs[1],
                     context.outputs[2], context.inputs[2], context.inputs[3], mask});
  for (std::size_t i = 0; i < 3; ++i) {
    if (context.needs(i) && results[i].is_tensor()) gradients[i] = results[i].tensor();
  }
  return gradients;
}

Gradients convolution(const GradContext& context) {
  Gradients gradients(3);
  if (!context.grads[0].defined()) return gradients;
  const ArgumentList mask = {context.needs(0), context.needs(1), context.needs(2)};
  const Argument bias_sizes = context.needs(2) ? Argument(input(context, 2).shape()) : Argument();
  Arguments args = {context.grads[0], context.inputs[0], context.inputs[1], bias_sizes};
  args.insert(args.end(), context.inputs.begin() + 3, context.inputs.end());
  args.emplace_back(mask);
  const Results results = context.calls("aten::convolution_backward", std::move(args));
  for (std::size_t i = 0; i < 3; ++i) {
    if (context.needs(i)) gradients[i] = results[i].tensor();
  }
  return gradients;
}

Gradients embedding(const GradContext& context) {
  Gradients gradients(2);
  if (!context.needs(0)) return gradients;
  gradients[0] =
      context.calls.one("aten::embedding_dense_backward",
                        {context.grads[0], input(context, 1), input(context, 0).shape()[0],
                         context.inputs[2], context.inputs[3]});
  return gradients;
}

Gradients nll_loss(const GradContext& context) {
  Gradients gradients(3);
  if (!context.needs(0) || !context.grads[0].defined()) return gradients;
  gradients[0] =
      context.calls.one("aten::nll_loss_backward",
                        {context.grads[0], context.inputs[0], context.inputs[1], context.inputs[2],
                         context.inputs[3], context.inputs[4], context.outputs[1]});
  return gradients;
}

Gradients mm(const GradContext& context) {
  Calls& calls = context.calls;
  Gradients gradients(2);
  if (context.needs(0)) {
    gradients[0] =
        calls.one("aten::mm", {context.grads[0], calls.one("aten::t", {input(context, 1)})});
  }
  if (context.needs(1)) {
    gradients[1] =
        calls.one("aten::mm", {calls.one("aten::t", {input(context, 0)}), context.grads[0]});
  }
  return gradients;
}

Gradients bmm(const GradContext& context) {
  Calls& calls = context.calls;
  const auto turned = [&](std::size_t index) {
    return calls.one("aten::transpose.int", {input(context, index), 1, 2});
  };
  Gradients gradients(2);
  if (context.needs(0)) gradients[0] = calls.one("aten::bmm", {context.grads[0], turned(1)});
  if (context.needs(1)) gradients[1] = calls.one("aten::bmm", {turned(0), context.grads[0]});
  return gradients;
}

namespace {

// self * beta + first @ second * alpha; `turned` swaps the dims of a factor.
template <typename Turned>
Gradients added_product(const GradContext& context, const char* product, const Turned& turned) {
  Calls& calls = context.calls;
  const DTensor& gradient = context.grads[0];
  const auto scaled = [&](const DTensor& x, const Argument& factor) {
    if (factor.to_double() == 1) return x;
    return calls.one("aten::mul.Scalar", {x, factor.scalar()});
  };
  Gradients gradients(3);
  if (context.needs(0)) {
    gradients[0] = sum_to(calls, scaled(gradient, context.inputs[3]), input(context, 0));
  }
  if (context.needs(1)) {
    gradients[1] =
        scaled(calls.one(product, {gradient, turned(input(context, 2))}), context.inputs[4]);
  }
  if (context.needs(2)) {
    gradients[2] =
        scaled(calls.one(product, {turned(input(context, 1)), gradient}), context.inputs[4]);
  }
  return gradients;
}

}  // namespace

Gradients addmm(const GradContext& context) {
  return added_product(context, "aten::mm",
                       [&](const DTensor& x) { return context.calls.one("aten::t", {x}); });
}

Gradients baddbmm(const GradContext& context) {
  return added_product(context, "aten::bmm", [&](const DTensor& x) {
    return context.calls.one("aten::transpose.int", {x, 1, 2});
  });
}

}  // namespace shardlab::grad
