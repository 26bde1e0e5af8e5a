// Gradients of further elementwise functions, and of ops that keep, drop or reorder elements.
#include <cmath>
#include <numbers>

#include "ops/arguments.h"
#include "ops/gradients.h"

namespace shardlab::grad {

namespace {

const DTensor& input(const GradContext& context, std::size_t index) {
  return context.inputs[index].tensor();
}

/// Writes functions as one would on paper.
class Formula {
 public:
  explicit Formula(const GradContext& context) : calls_(context.calls) {}

  DTensor times(const DTensor& a, const DTensor& b) const {
    return calls_.one("aten::mul.Tensor", {a, b});
  }
  DTensor times(const DTensor& a, Scalar b) const { return calls_.one("aten::mul.Scalar", {a, b}); }
  DTensor over(const DTensor& a, const DTensor& b) const {
    return calls_.one("aten::div.Tensor", {a, b});
  }
  DTensor plus(const DTensor& a, double b) const { return calls_.one("aten::add.Scalar", {a, b}); }
  DTensor of(std::string_view function, const DTensor& a) const {
    return calls_.one(function, {a});
  }
  /// `a` where `mask` holds, 0 elsewhere.
  DTensor where(const DTensor& mask, const DTensor& a) const {
    return calls_.one("aten::where.self", {mask, a, calls_.one("aten::zeros_like", {a})});
  }

 private:
  Calls& calls_;
};

}  // namespace

Gradients erf(const GradContext& context) {
  const Formula f(context);
  const DTensor& x = input(context, 0);
  const DTensor bell = f.of("aten::exp", f.of("aten::neg", f.times(x, x)));
  return {f.times(context.grads[0], f.times(bell, 2 / std::sqrt(std::numbers::pi)))};
}

Gradients exp2(const GradContext& context) {
  const Formula f(context);
  return {f.times(f.times(context.grads[0], context.outputs[0].tensor()), std::numbers::ln2)};
}

Gradients log2(const GradContext& context) {
  const Formula f(context);
  return {f.over(context.grads[0], f.times(input(context, 0), std::numbers::ln2))};
}

Gradients log10(const GradContext& context) {
  const Formula f(context);
  return {f.over(context.grads[0], f.times(input(context, 0), std::numbers::ln10))};
}

Gradients tan(const GradContext& context) {
  const Formula f(context);
  const DTensor& y = context.outputs[0].tensor();
  return {f.times(context.grads[0], f.plus(f.times(y, y), 1.0))};
}

Gradients atan(const GradContext& context) {
  const Formula f(context);
  const DTensor& x = input(context, 0);
  return {f.over(context.grads[0], f.plus(f.times(x, x), 1.0))};
}

Gradients leaky_relu(const GradContext& context) {
  return {context.calls.one("aten::leaky_relu_backward", {context.grads[0], input(context, 0),
                                                          context.inputs[1], Argument(false)})};
}

Gradients softplus(const GradContext& context) {
  return {context.calls.one("aten::softplus_backward", {context.grads[0], input(context, 0),
                                                        context.inputs[1], context.inputs[2]})};
}

// At the bound itself no gradient passes, as in the reference.
Gradients clamp_max(const GradContext& context) {
  const DTensor kept = context.calls.one("aten::lt.Scalar", {input(context, 0), context.inputs[1]});
  return {Formula(context).where(kept, context.grads[0])};
}

Gradients clamp_min(const GradContext& context) {
  const DTensor kept = context.calls.one("aten::gt.Scalar", {input(context, 0), context.inputs[1]});
  return {Formula(context).where(kept, context.grads[0])};
}

Gradients addcmul(const GradContext& context) {
  const Formula f(context);
  const DTensor scaled = f.times(context.grads[0], context.inputs[3].scalar());
  Gradients gradients(3);
  if (context.needs(0)) gradients[0] = sum_to(context.calls, context.grads[0], input(context, 0));
  for (const std::size_t i : {1, 2}) {
    if (!context.needs(i)) continue;
    gradients[i] = sum_to(context.calls, f.times(scaled, input(context, 3 - i)), input(context, i));
  }
  return gradients;
}

Gradients addcdiv(const GradContext& context) {
  const Formula f(context);
  const DTensor scaled = f.times(context.grads[0], Scalar(context.inputs[3].to_double()));
  const DTensor &above = input(context, 1), &below = input(context, 2);
  Gradients gradients(3);
  if (context.needs(0)) gradients[0] = sum_to(context.calls, context.grads[0], input(context, 0));
  if (context.needs(1)) gradients[1] = sum_to(context.calls, f.over(scaled, below), above);
  if (context.needs(2)) {
    const DTensor slope = f.of("aten::neg", f.over(above, f.times(below, below)));
    gradients[2] = sum_to(context.calls, f.times(scaled, slope), below);
  }
  return gradients;
}

Gradients lerp_scalar(const GradContext& context) {
  const Formula f(context);
  const double weight = context.inputs[2].to_double();
  const double shares[] = {1 - weight, weight};
  Gradients gradients(2);
  for (const std::size_t i : {0, 1}) {
    if (!context.needs(i)) continue;
    const DTensor share = f.times(context.grads[0], Scalar(shares[i]));
    gradients[i] = sum_to(context.calls, share, input(context, i));
  }
  return gradients;
}

Gradients lerp_tensor(const GradContext& context) {
  const Formula f(context);
  Calls& calls = context.calls;
  const DTensor& gradient = context.grads[0];
  const DTensor& weight = input(context, 2);
  Gradients gradients(3);
  if (context.needs(0)) {
    const DTensor rest = f.plus(f.of("aten::neg", weight), 1.0);
    gradients[0] = sum_to(calls, f.times(gradient, rest), input(context, 0));
  }
  if (context.needs(1)) {
    gradients[1] = sum_to(calls, f.times(gradient, weight), input(context, 1));
  }
  if (context.needs(2)) {
    const DTensor way = calls.one("aten::sub.Tensor", {input(context, 1), input(context, 0)});
    gradients[2] = sum_to(calls, f.times(gradient, way), weight);
  }
  return gradients;
}

// What an element adds to all later ones comes back from these.
Gradients cumsum(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& x = input(context, 0);
  if (x.ndim() == 0) return {cast_like(calls, context.grads[0], x)};
  const Dims dims{context.inputs[1].to_int()};
  const DTensor backwards = calls.one("aten::flip", {context.grads[0], dims});
  const DTensor sums = calls.one("aten::cumsum", {backwards, dims[0]});
  return {cast_like(calls, calls.one("aten::flip", {sums, dims}), x)};
}

Gradients tril(const GradContext& context) {
  return {context.calls.one("aten::tril", {context.grads[0], context.inputs[1]})};
}

Gradients triu(const GradContext& context) {
  return {context.calls.one("aten::triu", {context.grads[0], context.inputs[1]})};
}

Gradients flip(const GradContext& context) {
  return {context.calls.one("aten::flip", {context.grads[0], context.inputs[1]})};
}

Gradients roll(const GradContext& context) {
  Dims back = context.inputs[1].ints();
  for (std::int64_t& shift : back) shift = -shift;
  return {context.calls.one("aten::roll", {context.grads[0], back, context.inputs[2]})};
}

/// The mask that was drawn decides again; without training nothing was dropped.
Gradients native_dropout(const GradContext& context) {
  const bool train = context.inputs[2].is_none() || context.inputs[2].to_bool();
  if (!context.grads[0].defined()) return Gradients(1);
  if (!train) return {context.grads[0]};
  const Formula f(context);
  const double kept = 1 - context.inputs[1].to_double();
  const DTensor& mask = context.outputs[1].tensor();
  return {f.times(f.times(context.grads[0], mask), kept == 0 ? 0.0 : 1 / kept)};
}

namespace {

/// The gradient of values that were chosen along `dim` goes where they came from.
Gradients chosen(const GradContext& context, const Argument& dim, const DTensor& gradient,
                 const DTensor& index) {
  const DTensor zeros = context.calls.one("aten::zeros_like", {input(context, 0)});
  return {context.calls.one("aten::scatter_add", {zeros, dim, index, gradient})};
}

}  // namespace

Gradients extremum_along(const GradContext& context) {
  const Argument& dim = context.inputs[1];
  const DTensor& index = context.outputs[1].tensor();
  if (context.inputs[2].to_bool() || input(context, 0).ndim() == 0) {
    return chosen(context, dim, context.grads[0], index);
  }
  const Dims& shape = input(context, 0).shape();
  const std::int64_t at = wrap_dim(dim.to_int(), shape.size());
  return chosen(context, dim, context.calls.one("aten::unsqueeze", {context.grads[0], at}),
                context.calls.one("aten::unsqueeze", {index, at}));
}

Gradients sort(const GradContext& context) {
  return chosen(context, context.inputs[1], context.grads[0], context.outputs[1].tensor());
}

Gradients sort_stable(const GradContext& context) {
  return chosen(context, context.inputs[2], context.grads[0], context.outputs[1].tensor());
}

Gradients topk(const GradContext& context) {
  return chosen(context, context.inputs[2], context.grads[0], context.outputs[1].tensor());
}

Gradients dot(const GradContext& context) {
  const Formula f(context);
  Gradients gradients(2);
  for (const std::size_t i : {0, 1}) {
    if (context.needs(i)) gradients[i] = f.times(context.grads[0], input(context, 1 - i));
  }
  return gradients;
}

Gradients mv(const GradContext& context) {
  Calls& calls = context.calls;
  Gradients gradients(2);
  if (context.needs(0)) {
    gradients[0] = Formula(context).times(calls.one("aten::unsqueeze", {context.grads[0], 1}),
                                          calls.one("aten::unsqueeze", {input(context, 1), 0}));
  }
  if (context.needs(1)) {
    gradients[1] =
        calls.one("aten::mv", {calls.one("aten::t", {input(context, 0)}), context.grads[0]});
  }
  return gradients;
}

}  // namespace shardlab::grad
