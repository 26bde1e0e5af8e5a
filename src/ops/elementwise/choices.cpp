// Each element of the gradient goes where the chosen element came from.
#include "ops/elementwise/choices.h"

#include <string_view>

namespace shardlab {

using namespace grad;

namespace {

// The gradient counts fully where `a` wins, by half on a tie.
Gradients extremum(const GradContext& context, std::string_view wins_first) {
  Calls& calls = context.calls;
  const DTensor& a = input(context, 0);
  const DTensor& b = input(context, 1);
  const std::string_view wins_second =
      wins_first == "aten::gt.Tensor" ? "aten::lt.Tensor" : "aten::gt.Tensor";
  // With a NaN neither loses: both take all of the gradient, as in the reference.
  const auto share = [&](std::string_view loses) {
    const DTensor lost = calls.one(loses, {a, b});
    const DTensor tied = times(calls, calls.one("aten::eq.Tensor", {a, b}), Scalar(0.5));
    const DTensor less = calls.one("aten::add.Tensor", {lost, tied});
    return multiply(calls, context.grads[0], calls.one("aten::rsub.Scalar", {less, Scalar(1)}));
  };
  return each(
      context, [&] { return share(wins_second); }, [&] { return share(wins_first); });
}

// clamp(self, min, max) with tensors as bounds, both given: the share of the gradient that each
// takes. Half at a bound that is met, where the bounds differ; NaN meets and crosses no bound.
class BoundShares {
 public:
  explicit BoundShares(const GradContext& context)
      : x_(context.calls, input(context, 0)),
        lower_(context.calls, input(context, 1)),
        low_(input(context, 1)),
        high_(input(context, 2)),
        apart_(lower_.lt(high_)),
        ordered_(lower_.le(high_)) {}

  Expression of_self() const {
    const Expression met = apart_ && (x_.eq(low_) || x_.eq(high_));
    return (x_.lt(low_) || x_.gt(high_)).plus(met * 0.5).with("aten::rsub.Scalar", 1);
  }
  Expression of_low() const {
    return (ordered_ && x_.lt(low_)).plus((apart_ && x_.eq(low_)) * 0.5);
  }
  Expression of_high() const {
    return (lower_.gt(high_) || (ordered_ && x_.gt(high_))).plus((apart_ && x_.eq(high_)) * 0.5);
  }

 private:
  const Expression x_, lower_;
  const DTensor &low_, &high_;
  const Expression apart_, ordered_;
};

// The gradient where the mask holds, 0 elsewhere.
DTensor flowing_where(const GradContext& context, const Expression& mask) {
  const Expression gradient = flowing(context);
  return mask.choose(gradient, gradient.of("aten::zeros_like"));
}

}  // namespace

Gradients grad_maximum(const GradContext& context) { return extremum(context, "aten::gt.Tensor"); }

Gradients grad_minimum(const GradContext& context) { return extremum(context, "aten::lt.Tensor"); }

// Zero at a bound that the input equals exactly, as recorded.
Gradients grad_clamp(const GradContext& context) {
  Calls& calls = context.calls;
  DTensor gradient = context.grads[0];
  if (!context.inputs[1].is_none()) {
    const DTensor above = calls.one("aten::gt.Scalar", {input(context, 0), context.inputs[1]});
    gradient = multiply(calls, gradient, above);
  }
  if (!context.inputs[2].is_none()) {
    const DTensor below = calls.one("aten::lt.Scalar", {input(context, 0), context.inputs[2]});
    gradient = multiply(calls, gradient, below);
  }
  return {gradient};
}

// With one bound it is the larger or the smaller of both.
Gradients grad_clamp_tensors(const GradContext& context) {
  const bool low = context.inputs[1].is_tensor(), high = context.inputs[2].is_tensor();
  if (low && high) {
    const BoundShares shares(context);
    const Expression g = flowing(context);
    return each(
        context, [&] { return g * shares.of_self(); }, [&] { return g * shares.of_low(); },
        [&] { return g * shares.of_high(); });
  }
  const std::size_t bound = low ? 1 : 2;
  const Arguments pair{context.inputs[0], context.inputs[bound]};
  const GradContext two{context.calls, pair, context.outputs, context.grads,
                        [&](std::size_t i) { return context.needs(i == 0 ? 0 : bound); }};
  const Gradients found = low ? grad_maximum(two) : grad_minimum(two);
  Gradients gradients{found[0], {}, {}};
  gradients[bound] = found[1];
  return gradients;
}

// At the bound itself no gradient passes, as in the reference.
Gradients grad_clamp_max(const GradContext& context) {
  return {flowing_where(context, in(context, 0).lt(context.inputs[1]))};
}

Gradients grad_clamp_min(const GradContext& context) {
  return {flowing_where(context, in(context, 0).gt(context.inputs[1]))};
}

Gradients grad_masked_fill(const GradContext& context) {
  return each(context, [&] { return flowing(context).filled(in(context, 1), 0.0); });
}

Gradients grad_masked_fill_tensor(const GradContext& context) {
  Gradients gradients = grad_masked_fill(context);
  gradients.resize(3);
  if (!context.needs(2)) return gradients;
  gradients[2] = sum_to(context.calls, flowing_where(context, in(context, 1)), input(context, 2));
  return gradients;
}

Gradients grad_where(const GradContext& context) {
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

}  // namespace shardlab
