// Parts of gradient programs that families share.
#include "ops/core/gradient_math.h"

#include <algorithm>

namespace shardlab::grad {

const DTensor& input(const GradContext& context, std::size_t index) {
  return context.inputs[index].tensor();
}
const DTensor& output(const GradContext& context) { return context.outputs[0].tensor(); }

DTensor multiply(Calls& calls, const DTensor& a, const DTensor& b) {
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

Expression complex_part(const Expression& x, std::int64_t index) {
  Calls& calls = x.calls();
  return {calls, calls.one("aten::select.int", {x.of("aten::view_as_real"), -1, index})};
}

DTensor unrecorded(const DTensor& value) {
  DTensor handle(value.local(), value.spec());
  handle.impl()->extras = value.impl()->extras;
  handle.impl()->note = value.impl()->note;
  return handle;
}

DTensor cast_like(Calls& calls, const DTensor& gradient, const DTensor& input) {
  return cast_to(calls, gradient, input.dtype());
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

DTensor reduced(Calls& calls, const DTensor& value) {
  if (!value.distributed() || !value.spec()->has_partial()) return value;
  Placements placements = value.spec()->placements();
  for (Placement& placement : placements) {
    if (placement.is_partial()) placement = Placement::replicate();
  }
  return calls.redistribute(value, placements);
}

Gradients masked_gradients(const GradContext& context, std::string_view op, Arguments args,
                           std::size_t count) {
  ArgumentList mask;
  for (std::size_t i = 0; i < count; ++i) mask.emplace_back(context.needs(i));
  args.emplace_back(std::move(mask));
  const Results results = context.calls(op, std::move(args));
  Gradients gradients(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (context.needs(i) && results[i].is_tensor()) gradients[i] = results[i].tensor();
  }
  return gradients;
}

Gradients chosen(const GradContext& context, const Argument& dim, const DTensor& gradient,
                 const DTensor& index) {
  const DTensor zeros = context.calls.one("aten::zeros_like", {input(context, 0)});
  return {context.calls.one("aten::scatter_add", {zeros, dim, index, gradient})};
}

DTensor of_added(const GradContext& context) {
  const DTensor part = times(context.calls, context.grads[0], context.inputs[3].scalar());
  return sum_to(context.calls, part, input(context, 0));
}

Gradients grad_pass(const GradContext& context) {
  return {cast_like(context.calls, context.grads[0], input(context, 0))};
}

Gradients grad_zeros(const GradContext&) { return {}; }

}  // namespace shardlab::grad
