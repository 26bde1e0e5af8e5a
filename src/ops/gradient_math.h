// gradient_math.h - what gradient programs are written with: small programs over other ops, on
// global values, so that placements follow by propagation. Each stands beside the row of its op.
#pragma once

#include <vector>

#include "schema/op_row.h"

namespace shardlab::grad {

/// One gradient per tensor argument, in schema order; undefined: none.
using Gradients = std::vector<DTensor>;

/// The tensor argument at schema index `index`, and the first result, as they were in forward. Both
/// belong to the context. Shapes are always there, elements only where the row says that its
/// gradient reads them. ///   fails
const DTensor& input(const GradContext& context, std::size_t index);
const DTensor& output(const GradContext& context);

/// Broadcasting undone: sums the dims that broadcasting added, then casts to the input's dtype.
DTensor sum_to(Calls& calls, const DTensor& gradient, const DTensor& input);
/// With `dims` whole on every rank: views refuse to stretch or remove a dim of size 1 that is cut.
DTensor gathered(Calls& calls, const DTensor& value, const Dims& dims);
/// `gradient` in `input`'s dtype.
DTensor cast_like(Calls& calls, const DTensor& gradient, const DTensor& input);

// One op each: operands broadcast, dtypes are promoted, and placements follow by propagation.
DTensor multiply(Calls& calls, const DTensor& a, const DTensor& b);
/// Without an op for a factor of 1.
DTensor times(Calls& calls, const DTensor& a, Scalar factor);
DTensor divide(Calls& calls, const DTensor& a, const DTensor& b);
DTensor negate(Calls& calls, const DTensor& a);
DTensor zeros_like(Calls& calls, const DTensor& a);

/// Writes functions as one would on paper.
class Formula {
 public:
  /// For the length of one gradient: it keeps the context's calls.
  explicit Formula(const GradContext& context) : calls_(context.calls) {}

  DTensor times(const DTensor& a, const DTensor& b) const {
    return calls_.one("aten::mul.Tensor", {a, b});
  }
  DTensor times(const DTensor& a, Scalar b) const { return calls_.one("aten::mul.Scalar", {a, b}); }
  DTensor over(const DTensor& a, const DTensor& b) const {
    return calls_.one("aten::div.Tensor", {a, b});
  }
  DTensor plus(const DTensor& a, double b) const { return calls_.one("aten::add.Scalar", {a, b}); }
  /// An op with one tensor argument by its name: of("aten::cos", x).
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

/// Of values that were chosen along `dim`: goes to where they came from.
Gradients chosen(const GradContext& context, const Argument& dim, const DTensor& gradient,
                 const DTensor& index);
/// Of ops that hand values on: the gradient in the input's dtype.
Gradients grad_pass(const GradContext& context);
/// Of steps, and of what does not depend on the old value.
Gradients grad_zeros(const GradContext& context);

}  // namespace shardlab::grad
