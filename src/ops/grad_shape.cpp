// Gradients of ops that move elements: each element goes back to where it came from. The inverse of
// a permutation, a slice or a squeeze is an op of the same kind; what read a position twice adds up
// there (scatter_add, index_put with accumulate).
#include "ops/arguments.h"
#include "ops/gradients.h"

namespace shardlab::grad {

namespace {

const DTensor& input(const GradContext& context, std::size_t index) {
  return context.inputs[index].tensor();
}

std::int64_t scalar_or(const Argument& argument, std::int64_t fallback) {
  return argument.is_none() ? fallback : argument.to_int();
}

DTensor zeros_of(Calls& calls, const Argument& value) {
  return calls.one("aten::zeros_like", {value.tensor()});
}

DTensor slice_of(Calls& calls, const DTensor& x, std::int64_t dim, std::int64_t start,
                 std::int64_t size) {
  return calls.one("aten::slice.Tensor", {x, dim, start, start + size});
}

// Whether a squeeze names tensor dim `dim`: all of them (no dim argument), one, or a list.
bool removes(const GradContext& context, std::size_t dim) {
  if (context.inputs.size() < 2) return true;
  const std::size_t ndim = input(context, 0).ndim();
  const auto same = [&](std::int64_t named) {
    return wrap_dim(named, ndim) == static_cast<std::int64_t>(dim);
  };
  if (!context.inputs[1].is_ints()) return same(context.inputs[1].to_int());
  for (const std::int64_t named : context.inputs[1].ints()) {
    if (same(named)) return true;
  }
  return false;
}

// Outputs without a gradient count as zeros.
ArgumentList present_grads(const GradContext& context) {
  const ArgumentList& outputs = context.outputs[0].list();
  ArgumentList pieces;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const DTensor& gradient = context.grads[i];
    pieces.emplace_back(gradient.defined() ? gradient : zeros_of(context.calls, outputs[i]));
  }
  return pieces;
}

}  // namespace

// A gradient laid out like the result goes back the way the value came; another layout may not be
// viewable, so it goes through the row that gathers where it must.
Gradients reshape(const GradContext& context) {
  const DTensor& gradient = context.grads[0];
  const DTensor& result = context.outputs[0].tensor();
  const bool same = !gradient.distributed() ||
                    gradient.spec()->placements() == result.spec()->placements() ||
                    !gradient.spec()->is_sharded();
  return {context.calls.one(same ? "aten::reshape" : "aten::view_copy",
                            {gradient, input(context, 0).shape()})};
}

Gradients transpose(const GradContext& context) {
  return {context.calls.one("aten::transpose.int",
                            {context.grads[0], context.inputs[1], context.inputs[2]})};
}

Gradients t(const GradContext& context) {
  return {context.calls.one("aten::t", {context.grads[0]})};
}

Gradients permute(const GradContext& context) {
  const Dims& dims = context.inputs[1].ints();
  Dims inverse(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    inverse[static_cast<std::size_t>(wrap_dim(dims[i], dims.size()))] =
        static_cast<std::int64_t>(i);
  }
  return {context.calls.one("aten::permute", {context.grads[0], inverse})};
}

// Puts the removed dims back one by one, which keeps the placements of the others. Only named
// dims of size 1 go away.
Gradients squeeze(const GradContext& context) {
  DTensor gradient = context.grads[0];
  const Dims& shape = input(context, 0).shape();
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] != 1 || !removes(context, dim)) continue;
    gradient = context.calls.one("aten::unsqueeze", {gradient, static_cast<std::int64_t>(dim)});
  }
  return {gradient};
}

Gradients unsqueeze(const GradContext& context) {
  const std::int64_t dim = wrap_dim(context.inputs[1].to_int(), context.grads[0].ndim());
  const DTensor gradient = gathered(context.calls, context.grads[0], Dims{dim});
  return {context.calls.one("aten::squeeze.dim", {gradient, dim})};
}

Gradients expand(const GradContext& context) {
  return {sum_to(context.calls, context.grads[0], input(context, 0))};
}

Gradients slice(const GradContext& context) {
  const Dims& shape = input(context, 0).shape();
  const std::int64_t dim = wrap_dim(context.inputs[1].to_int(), shape.size());
  const std::int64_t size = shape[static_cast<std::size_t>(dim)];
  return {context.calls.one("aten::slice_backward",
                            {context.grads[0], shape, dim, scalar_or(context.inputs[2], 0),
                             scalar_or(context.inputs[3], size), context.inputs[4]})};
}

Gradients select(const GradContext& context) {
  return {context.calls.one("aten::select_backward", {context.grads[0], input(context, 0).shape(),
                                                      context.inputs[1], context.inputs[2]})};
}

Gradients cat(const GradContext& context) {
  const ArgumentList& inputs = context.inputs[0].list();
  const std::int64_t dim = wrap_dim(context.inputs[1].to_int(), context.grads[0].ndim());
  Gradients gradients(inputs.size());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DTensor& piece = inputs[i].tensor();
    if (piece.ndim() != context.grads[0].ndim()) continue;  // the legacy empty 1-d tensor
    const std::int64_t size = piece.shape()[static_cast<std::size_t>(dim)];
    if (context.needs(i)) {
      gradients[i] = cast_like(context.calls,
                               slice_of(context.calls, context.grads[0], dim, start, size), piece);
    }
    start += size;
  }
  return gradients;
}

Gradients stack(const GradContext& context) {
  const std::size_t count = context.inputs[0].list().size();
  Gradients gradients(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!context.needs(i)) continue;
    gradients[i] = context.calls.one(
        "aten::select.int", {context.grads[0], context.inputs[1], static_cast<std::int64_t>(i)});
  }
  return gradients;
}

Gradients split(const GradContext& context) {
  return {context.calls.one("aten::cat", {present_grads(context), context.inputs[2]})};
}

Gradients unbind(const GradContext& context) {
  return {context.calls.one("aten::stack", {present_grads(context), context.inputs[1]})};
}

Gradients gather(const GradContext& context) {
  Gradients gradients(2);
  if (!context.needs(0)) return gradients;
  const DTensor zeros = context.calls.one("aten::zeros_like", {input(context, 0)});
  gradients[0] = context.calls.one("aten::scatter_add",
                                   {zeros, context.inputs[1], input(context, 2), context.grads[0]});
  return gradients;
}

Gradients scatter_add(const GradContext& context) {
  Gradients gradients(3);
  if (context.needs(0)) gradients[0] = context.grads[0];
  if (context.needs(2)) {
    gradients[2] =
        context.calls.one("aten::gather", {context.grads[0], context.inputs[1], input(context, 2)});
  }
  return gradients;
}

// What is overwritten passes nothing on.
Gradients scatter(const GradContext& context) {
  Calls& calls = context.calls;
  Gradients gradients(context.inputs[3].is_tensor() ? 3 : 2);
  if (context.needs(0)) {
    gradients[0] = calls.one("aten::scatter.value",
                             {context.grads[0], context.inputs[1], input(context, 2), 0});
  }
  if (context.inputs[3].is_tensor() && context.needs(2)) {
    gradients[2] =
        calls.one("aten::gather", {context.grads[0], context.inputs[1], input(context, 2)});
  }
  return gradients;
}

Gradients index_select(const GradContext& context) {
  Gradients gradients(2);
  if (!context.needs(0)) return gradients;
  Calls& calls = context.calls;
  const DTensor& gradient = context.grads[0];
  Dims line(gradient.ndim(), 1);
  if (!line.empty()) {
    const std::int64_t dim = wrap_dim(context.inputs[1].to_int(), gradient.ndim());
    line[static_cast<std::size_t>(dim)] = input(context, 2).numel();
  }
  const DTensor positions = calls.one(
      "aten::expand", {calls.one("aten::reshape", {input(context, 2), line}), gradient.shape()});
  const DTensor zeros = calls.one("aten::new_zeros", {gradient, input(context, 0).shape()});
  gradients[0] = calls.one("aten::scatter_add", {zeros, context.inputs[1], positions, gradient});
  return gradients;
}

Gradients index(const GradContext& context) {
  Gradients gradients(1 + context.inputs[1].list().size());
  if (!context.needs(0)) return gradients;
  const DTensor& gradient = context.grads[0];
  const DTensor zeros = context.calls.one("aten::new_zeros", {gradient, input(context, 0).shape()});
  gradients[0] = context.calls.one("aten::index_put", {zeros, context.inputs[1], gradient, true});
  return gradients;
}

// A position that is given twice passes its gradient to both values, as in the reference.
Gradients index_put(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& gradient = context.grads[0];
  const Argument& indices = context.inputs[1];
  const std::size_t last = 1 + indices.list().size();
  const DTensor& values = input(context, 2);
  Gradients gradients(last + 1);
  if (context.needs(0)) {
    const bool adds = context.inputs[3].to_bool();
    gradients[0] =
        adds ? gradient
             : calls.one("aten::index_put",
                         {gradient, indices, calls.one("aten::zeros_like", {values}), false});
  }
  if (context.needs(last)) {
    gradients[last] = sum_to(calls, calls.one("aten::index.Tensor", {gradient, indices}), values);
  }
  return gradients;
}

}  // namespace shardlab::grad
