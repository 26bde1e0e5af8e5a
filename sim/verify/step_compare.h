// step_compare.h - what the judges of calls and of moves share: comparing whole values, and small
// changes of them.
#pragma once

#include "sim/verify/step_bounds.h"
#include "sim/verify/step_value.h"

namespace shardlab {

bool on_host(const Tensor& x);
/// Where its elements begin. On the host.
const std::byte* first_byte(const Tensor& x);
/// The same bytes. Shapes and dtypes are equal.
bool same_bits(const Tensor& a, const Tensor& b);
/// Bit for bit; any NaN equals any NaN. Shapes and dtypes are equal.
bool same_values(const Tensor& a, const Tensor& b);
bool all_finite(const Tensor& x);

/// What to say of values that must be equal and are not.
WrongStep bitwise_miss(const Tensor& got, const Tensor& expected);
WrongStep float_miss(const Misses& missed, DType dtype);
/// "ranks 0,4 at [3, 1]".
std::string holders_text(const DTensorSpec& spec, std::int64_t element);

/// Sizes of the elements, of pending sums those of their terms, in f64 or c128.
Tensor absolute_value(const WholeValue& value);
/// Each number times 1 + step or 1 - step, by a coin of its own.
Tensor scaled_at_random(const Tensor& x, double step, int sample);
/// Each number of a pending sum moved by u N S up or down, in its own dtype.
Tensor nudged_by_rounding(const WholeValue& value, int sample);
/// Terms behind each of `results` elements: of a product the square root of sizes over results.
double terms_added(const std::vector<WholeValue>& operands, std::int64_t results, bool any);

}  // namespace shardlab
