// Gradients of pointwise ops as programs over other ops, so that placements, partials and second
// derivatives follow from the rows of those. An operand that was stretched gets the sum over the
// dims in which it was (sum_to), and the gradient in its own dtype.
#include "ops/gradients.h"

#include <cmath>

namespace shardlab::grad {

namespace {

const DTensor& input(const GradContext& context, std::size_t index) {
  return context.inputs[index].tensor();
}
const DTensor& output(const GradContext& context) { return context.outputs[0].tensor(); }

DTensor mul(Calls& calls, const DTensor& a, const DTensor& b) {
  return calls.one("aten::mul.Tensor", {a, b});
}
DTensor times(Calls& calls, const DTensor& a, Scalar factor) {
  if (factor == Scalar(1) || factor == Scalar(1.0)) return a;
  return calls.one("aten::mul.Scalar", {a, factor});
}
DTensor divide(Calls& calls, const DTensor& a, const DTensor& b) {
  return calls.one("aten::div.Tensor", {a, b});
}
DTensor negate(Calls& calls, const DTensor& a) { return calls.one("aten::neg", {a}); }
DTensor zeros_like(Calls& calls, const DTensor& a) { return calls.one("aten::zeros_like", {a}); }

// Two broadcast operands: each side is computed only when wanted.
template <typename First, typename Second>
Gradients both(const GradContext& context, First first, Second second) {
  Gradients gradients(2);
  if (context.needs(0)) gradients[0] = sum_to(context.calls, first(), input(context, 0));
  if (context.needs(1)) gradients[1] = sum_to(context.calls, second(), input(context, 1));
  return gradients;
}

// Where `a` wins the gradient counts fully, on a tie by half.
Gradients extremum(const GradContext& context, std::string_view wins_first) {
  Calls& calls = context.calls;
  const DTensor& a = input(context, 0);
  const DTensor& b = input(context, 1);
  const std::string_view wins_second =
      wins_first == "aten::gt.Tensor" ? "aten::lt.Tensor" : "aten::gt.Tensor";
  const auto share = [&](std::string_view wins) {
    const DTensor won = calls.one(wins, {a, b});
    const DTensor tied = times(calls, calls.one("aten::eq.Tensor", {a, b}), Scalar(0.5));
    return mul(calls, context.grads[0], calls.one("aten::add.Tensor", {won, tied}));
  };
  return both(
      context, [&] { return share(wins_first); }, [&] { return share(wins_second); });
}

}  // namespace

DTensor cast_like(Calls& calls, const DTensor& gradient, const DTensor& input) {
  if (gradient.dtype() == input.dtype()) return gradient;
  return calls.one("aten::_to_copy", {gradient, input.dtype()});
}

DTensor sum_to(Calls& calls, const DTensor& gradient, const DTensor& input) {
  const Dims& from = gradient.shape();
  const Dims& to = input.shape();
  if (from == to) return cast_like(calls, gradient, input);
  const std::size_t leading = from.size() - to.size();
  Dims dims;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool added = i < leading || (to[i - leading] == 1 && from[i] != 1);
    if (added) dims.push_back(static_cast<std::int64_t>(i));
  }
  DTensor result = gradient;
  if (!dims.empty()) result = calls.one("aten::sum.dim_IntList", {result, dims, true});
  if (leading > 0) {
    Dims single;
    for (std::size_t i = 0; i < result.ndim(); ++i) {
      if (result.shape()[i] == 1) single.push_back(static_cast<std::int64_t>(i));
    }
    result = calls.one("aten::view", {gathered(calls, result, single), to});
  }
  return cast_like(calls, result, input);
}

Gradients add(const GradContext& context) {
  const Scalar alpha = context.inputs[2].scalar();
  return both(
      context, [&] { return context.grads[0]; },
      [&] { return times(context.calls, context.grads[0], alpha); });
}

Gradients sub(const GradContext& context) {
  const Scalar alpha = context.inputs[2].scalar();
  return both(
      context, [&] { return context.grads[0]; },
      [&] { return negate(context.calls, times(context.calls, context.grads[0], alpha)); });
}

Gradients mul(const GradContext& context) {
  return both(
      context, [&] { return mul(context.calls, context.grads[0], input(context, 1)); },
      [&] { return mul(context.calls, context.grads[0], input(context, 0)); });
}

Gradients div(const GradContext& context) {
  Calls& calls = context.calls;
  return both(
      context, [&] { return divide(calls, context.grads[0], input(context, 1)); },
      [&] {
        const DTensor quotient =
            divide(calls, divide(calls, input(context, 0), input(context, 1)), input(context, 1));
        return negate(calls, mul(calls, context.grads[0], quotient));
      });
}

Gradients maximum(const GradContext& context) { return extremum(context, "aten::gt.Tensor"); }
Gradients minimum(const GradContext& context) { return extremum(context, "aten::lt.Tensor"); }

Gradients pow_tensors(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& base = input(context, 0);
  const DTensor& exponent = input(context, 1);
  return both(
      context,
      [&] {
        const DTensor less = calls.one("aten::sub.Scalar", {exponent, Scalar(1)});
        const DTensor slope =
            mul(calls, exponent, calls.one("aten::pow.Tensor_Tensor", {base, less}));
        return mul(calls, context.grads[0], slope);
      },
      [&] {
        const DTensor slope = mul(calls, output(context), calls.one("aten::log", {base}));
        return mul(calls, context.grads[0], slope);
      });
}

Gradients where(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& condition = input(context, 0);
  const DTensor& gradient = context.grads[0];
  const DTensor nothing = zeros_like(calls, gradient);
  Gradients gradients(3);
  if (context.needs(1)) {
    gradients[1] = sum_to(calls, calls.one("aten::where.self", {condition, gradient, nothing}),
                          input(context, 1));
  }
  if (context.needs(2)) {
    gradients[2] = sum_to(calls, calls.one("aten::where.self", {condition, nothing, gradient}),
                          input(context, 2));
  }
  return gradients;
}

Gradients pass(const GradContext& context) {
  return {cast_like(context.calls, context.grads[0], input(context, 0))};
}

Gradients scale(const GradContext& context) {
  const DTensor scaled = times(context.calls, context.grads[0], context.inputs[1].scalar());
  return {cast_like(context.calls, scaled, input(context, 0))};
}

Gradients unscale(const GradContext& context) {
  const DTensor scaled =
      context.calls.one("aten::div.Scalar", {context.grads[0], context.inputs[1].scalar()});
  return {cast_like(context.calls, scaled, input(context, 0))};
}

Gradients rsub_scalar(const GradContext& context) {
  return {
      negate(context.calls, times(context.calls, context.grads[0], context.inputs[2].scalar()))};
}

Gradients pow_scalar(const GradContext& context) {
  Calls& calls = context.calls;
  const Scalar exponent = context.inputs[1].scalar();
  if (exponent.to_double() == 0) return {zeros_like(calls, input(context, 0))};
  const Scalar less =
      exponent.is_integral() ? Scalar(exponent.to_int() - 1) : Scalar(exponent.to_double() - 1);
  const DTensor power = calls.one("aten::pow.Tensor_Scalar", {input(context, 0), less});
  return {mul(calls, context.grads[0], times(calls, power, exponent))};
}

Gradients scalar_pow(const GradContext& context) {
  const double base = context.inputs[0].to_double();
  const DTensor slope = times(context.calls, output(context), Scalar(std::log(base)));
  return {mul(context.calls, context.grads[0], slope)};
}

// Zero at a bound that the input equals exactly, as recorded.
Gradients clamp(const GradContext& context) {
  Calls& calls = context.calls;
  DTensor gradient = context.grads[0];
  if (!context.inputs[1].is_none()) {
    const DTensor above = calls.one("aten::gt.Scalar", {input(context, 0), context.inputs[1]});
    gradient = mul(calls, gradient, above);
  }
  if (!context.inputs[2].is_none()) {
    const DTensor below = calls.one("aten::lt.Scalar", {input(context, 0), context.inputs[2]});
    gradient = mul(calls, gradient, below);
  }
  return {gradient};
}

Gradients masked_fill(const GradContext& context) {
  Gradients gradients(2);
  if (!context.needs(0)) return gradients;
  const DTensor kept = context.calls.one("aten::masked_fill.Scalar",
                                         {context.grads[0], input(context, 1), Scalar(0.0)});
  gradients[0] = sum_to(context.calls, kept, input(context, 0));
  return gradients;
}

Gradients fill(const GradContext& context) { return {zeros_like(context.calls, context.grads[0])}; }

Gradients copy(const GradContext& context) {
  Gradients gradients(2);
  if (context.needs(0)) gradients[0] = zeros_like(context.calls, context.grads[0]);
  if (context.needs(1)) gradients[1] = sum_to(context.calls, context.grads[0], input(context, 1));
  return gradients;
}

Gradients neg(const GradContext& context) { return {negate(context.calls, context.grads[0])}; }

Gradients abs(const GradContext& context) {
  return {
      mul(context.calls, context.grads[0], context.calls.one("aten::sign", {input(context, 0)}))};
}

Gradients exp(const GradContext& context) {
  return {mul(context.calls, context.grads[0], output(context))};
}

Gradients log(const GradContext& context) {
  return {divide(context.calls, context.grads[0], input(context, 0))};
}

Gradients log1p(const GradContext& context) {
  const DTensor shifted = context.calls.one("aten::add.Scalar", {input(context, 0), Scalar(1)});
  return {divide(context.calls, context.grads[0], shifted)};
}

Gradients expm1(const GradContext& context) {
  const DTensor shifted = context.calls.one("aten::add.Scalar", {output(context), Scalar(1)});
  return {mul(context.calls, context.grads[0], shifted)};
}

Gradients sqrt(const GradContext& context) {
  const DTensor twice = times(context.calls, output(context), Scalar(2));
  return {divide(context.calls, context.grads[0], twice)};
}

Gradients rsqrt(const GradContext& context) {
  const DTensor cubed = context.calls.one("aten::pow.Tensor_Scalar", {output(context), Scalar(3)});
  return {mul(context.calls, times(context.calls, context.grads[0], Scalar(-0.5)), cubed)};
}

Gradients reciprocal(const GradContext& context) {
  const DTensor squared = mul(context.calls, output(context), output(context));
  return {negate(context.calls, mul(context.calls, context.grads[0], squared))};
}

Gradients square(const GradContext& context) {
  const DTensor twice = times(context.calls, input(context, 0), Scalar(2));
  return {mul(context.calls, context.grads[0], twice)};
}

Gradients sin(const GradContext& context) {
  return {
      mul(context.calls, context.grads[0], context.calls.one("aten::cos", {input(context, 0)}))};
}

Gradients cos(const GradContext& context) {
  const DTensor slope = negate(context.calls, context.calls.one("aten::sin", {input(context, 0)}));
  return {mul(context.calls, context.grads[0], slope)};
}

Gradients tanh(const GradContext& context) {
  return {context.calls.one("aten::tanh_backward", {context.grads[0], output(context)})};
}

Gradients sigmoid(const GradContext& context) {
  return {context.calls.one("aten::sigmoid_backward", {context.grads[0], output(context)})};
}

Gradients relu(const GradContext& context) {
  return {context.calls.one("aten::threshold_backward",
                            {context.grads[0], output(context), Scalar(0)})};
}

Gradients gelu(const GradContext& context) {
  return {context.calls.one("aten::gelu_backward",
                            {context.grads[0], input(context, 0), context.inputs[1]})};
}

Gradients silu(const GradContext& context) {
  return {context.calls.one("aten::silu_backward", {context.grads[0], input(context, 0)})};
}

}  // namespace shardlab::grad
