// gradient_math.h - the parts of gradient programs: small programs over other ops, on global
// values, so that placements follow by propagation. Each gradient program is next to the row of its
// op.
#pragma once

#include <vector>

#include "base/fixed_text.h"
#include "ops/core/expression.h"
#include "schema/computation.h"

namespace shardlab::grad {

/// One gradient per tensor argument, in schema order; undefined, or left out at the end: none.
using Gradients = std::vector<DTensor>;

/// The tensor argument at schema index `index`, and the first result, as they were in forward. Both
/// belong to the context. Shapes are always available, elements only where the row declares that
/// its gradient reads them.
const DTensor& input(const GradContext& context, std::size_t index);
const DTensor& output(const GradContext& context);

/// Broadcasting undone: sums the dims that broadcasting added, then casts to the input's dtype.
DTensor sum_to(Calls& calls, const DTensor& gradient, const DTensor& input);
/// With `dims` whole on every rank: views refuse to stretch or remove a dim of size 1 that is cut.
DTensor gathered(Calls& calls, const DTensor& value, const Dims& dims);
/// With pending reductions carried out: a later write into it is not a term.
DTensor reduced(Calls& calls, const DTensor& value);
/// The same memory under a handle of its own, of which nothing is recorded: for writes that the
/// reference does without gradients.
DTensor unrecorded(const DTensor& value);
/// `gradient` in `input`'s dtype.
DTensor cast_like(Calls& calls, const DTensor& gradient, const DTensor& input);

// One op each: operands broadcast, dtypes are promoted, and placements follow by propagation.
DTensor multiply(Calls& calls, const DTensor& a, const DTensor& b);
/// Without an op for a factor of 1.
DTensor times(Calls& calls, const DTensor& a, Scalar factor);
DTensor divide(Calls& calls, const DTensor& a, const DTensor& b);
DTensor negate(Calls& calls, const DTensor& a);
DTensor zeros_like(Calls& calls, const DTensor& a);

// The same in formulas, for the length of one gradient; const, as no op computes them (operators
// take two of them).
inline const Expression in(const GradContext& context, std::size_t index) {
  return {context.calls, input(context, index)};
}
inline const Expression out(const GradContext& context) { return {context.calls, output(context)}; }
/// The gradient of the first result.
inline const Expression flowing(const GradContext& context) {
  return {context.calls, context.grads[0]};
}
/// The real (0) or the imaginary part (1) of complex numbers.
Expression complex_part(const Expression& x, std::int64_t index);

/// The gradient of a function of one tensor: its slope times the gradient of the result.
template <Expression (*slope)(const GradContext&)>
Gradients grad_of(const GradContext& context) {
  return {flowing(context) * slope(context)};
}

/// The first result among the arguments of grad_by.
inline constexpr std::size_t kResult = std::numeric_limits<std::size_t>::max();
/// The gradient of one tensor by an op, whose arguments are the gradient of the result, then the
/// call's own at these places of its schema.
template <FixedText op, std::size_t... given>
Gradients grad_by(const GradContext& context) {
  [[maybe_unused]] const auto known = [&](std::size_t place) {
    return place == kResult ? context.outputs[0] : context.inputs[place];
  };
  return {context.calls.one(op, {context.grads[0], known(given)...})};
}

/// The gradient of a function with one slope for complex numbers is, as in the reference, the
/// gradient of the result times its slope conjugated: the program of real numbers between two
/// conjugations, for which no step of it has to be changed.
template <Gradients (*program)(const GradContext&)>
Gradients holomorphic(const GradContext& context) {
  const auto complex = [](const DTensor& x) { return x.defined() && is_complex(x.dtype()); };
  if (std::ranges::none_of(context.grads, complex)) return program(context);
  const auto turn = [&](DTensor& g) {
    if (g.defined()) g = conjugated(context.calls, g);
  };
  std::vector<DTensor> flowing(context.grads.begin(), context.grads.end());
  std::ranges::for_each(flowing, turn);
  const GradContext turned{context.calls, context.inputs, context.outputs, flowing, context.needs};
  Gradients found = program(turned);
  std::ranges::for_each(found, turn);
  return found;
}
/// The same of a slope.
template <Expression (*slope)(const GradContext&)>
inline constexpr GradientFn holomorphic_of = holomorphic<grad_of<slope>>;

/// The gradient of self in self * beta + product * alpha, whose beta is argument 3.
DTensor of_added(const GradContext& context);
/// Gradients of all three: alpha is argument 4, `of_factor(i)` gives that of factor i of the
/// product, 1 or 2, before alpha.
Gradients of_added_product(const GradContext& context, const auto& of_factor) {
  Calls& calls = context.calls;
  Gradients gradients(3);
  if (context.needs(0)) gradients[0] = of_added(context);
  for (const std::size_t i : {1, 2}) {
    if (!context.needs(i)) continue;
    const DTensor part = times(calls, of_factor(i), context.inputs[4].scalar());
    gradients[i] = cast_like(calls, part, input(context, i));
  }
  return gradients;
}

/// Gradients of operands that broadcast, the first arguments: each program runs only when wanted.
Gradients each(const GradContext& context, const auto&... programs) {
  Gradients gradients;
  const auto add = [&](const auto& program) {
    const std::size_t i = gradients.size();
    gradients.emplace_back();
    if (context.needs(i)) gradients[i] = sum_to(context.calls, program(), input(context, i));
  };
  (add(programs), ...);
  return gradients;
}
/// Gradients of the first `count` tensors, by one program of their place.
Gradients each_of(const GradContext& context, std::size_t count, const auto& program) {
  Gradients gradients(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (context.needs(i)) gradients[i] = program(i);
  }
  return gradients;
}

/// Gradients of the first `count` inputs by a backward op, whose last argument, behind `args`, says
/// which are wanted.
Gradients masked_gradients(const GradContext& context, std::string_view op, Arguments args,
                           std::size_t count);
/// For values that were chosen along `dim`: each gradient returns to the place of its value.
Gradients chosen(const GradContext& context, const Argument& dim, const DTensor& gradient,
                 const DTensor& index);
/// For ops that pass values on: the gradient in the input's dtype.
Gradients grad_pass(const GradContext& context);
/// For step functions, and for results that do not depend on the old value: zeros, which the tape
/// writes where a program gives none.
Gradients grad_zeros(const GradContext& context);

}  // namespace shardlab::grad
