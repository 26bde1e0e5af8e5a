// holomorphic.h - gradients of functions with one slope for complex numbers, written as for real
// ones.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/core/gradient_math.h"

namespace shardlab::grad {

/// The gradient of such a function is, as in the reference, the gradient of the result times its
/// slope conjugated: the program of real numbers between two conjugations, for which no step of it
/// has to be changed.
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

}  // namespace shardlab::grad
