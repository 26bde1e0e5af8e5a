// step_compare.h - common parts of the judges of calls and of moves: comparing whole values, and
// small changes of them.
#pragma once

#include "sim/verify/step_bounds.h"
#include "sim/verify/step_value.h"

namespace shardlab {

/// True when all bytes are equal. Shapes and dtypes must be.
bool same_bits(const Tensor& a, const Tensor& b);
/// True when all elements are equal bit for bit; any NaN equals any NaN. Shapes and dtypes must be
/// equal.
bool same_values(const Tensor& a, const Tensor& b);
bool all_finite(const Tensor& x);

/// The error for values that must be equal and are not.
WrongStep bitwise_miss(const Tensor& got, const Tensor& expected);
WrongStep float_miss(const Misses& missed, DType dtype);
/// "ranks 0,4 at [3, 1]".
std::string holders_text(const DTensorSpec& spec, std::int64_t element);

/// Absolute values of the elements, for a pending sum the sum of its absolute terms, in the dtype
/// of `own`, the value itself; NaN and infinities as 0: they do not depend on the order of
/// additions.
Tensor absolute_value(const WholeValue& value, const Tensor& own);
/// Each number of a value of floats larger or smaller by `step` of its size, by a coin of its own,
/// in f64 or c128. The size of a pending sum is that of its terms. Samples of different numbers
/// toss other coins.
Tensor scaled_at_random(const WholeValue& value, double step, int sample);
/// Each number of a pending sum moved by u N S up or down, of any floats by `least`, too. In f64 or
/// c128.
Tensor moved_by_rounding(const WholeValue& value, double least, int sample);
/// An estimate of the number of terms added for each of `results` elements. For one operand: its
/// size over `results`. For a product: the square root of the product of sizes over `results`,
/// which is k for [m, k] x [k, n].
double terms_added(const std::vector<WholeValue>& operands, std::int64_t results, bool any);

}  // namespace shardlab
