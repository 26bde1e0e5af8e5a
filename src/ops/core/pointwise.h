// pointwise.h - the words of pointwise rows. Output dims follow the broadcast input dims, so a row
// only lists the pending reductions that pass without communication, on ONE mesh dim. The letters
// are those of PointwiseRule.
#pragma once

#include <span>

#include "ops/core/meta.h"
#include "ops/core/rows.h"

namespace shardlab {

inline constexpr PointwiseRule kNone{""};
inline constexpr PointwiseRule kLinear{"ss aa"};
inline constexpr PointwiseRule kNonDecreasing{"xx nn"};
inline constexpr PointwiseRule kNonDecreasingNumbers{"XX NN"};  // of NaN it makes a number
inline constexpr PointwiseRule kNonIncreasing{"nx xn"};
inline constexpr PointwiseRule kNegation{"ss aa nx xn"};
inline constexpr PointwiseRule kEveryPartial{"ss aa xx nn"};
inline constexpr PointwiseRule kAdditive{"sss aaa aar XXr NNr ara"};
inline constexpr PointwiseRule kProduct{
    "ss aa ssr aar srs ara"};  // one word fits a number as operand
inline constexpr PointwiseRule kQuotient{"ss aa ssr aar"};
inline constexpr PointwiseRule kMaxLike{"xxr xrx nnr nrn xxx"};
inline constexpr PointwiseRule kMinLike{"xxr xrx nnr nrn nnn"};

/// The slope of hardsigmoid: a sixth in single precision, also of doubles, as in the reference.
inline constexpr double kOneSixth = 1.0F / 6.0F;

/// The rows of two kinds of ops that let no pending reduction pass: of a function of floats, to
/// which integers are converted, and of a question whose answer is true or false.
constexpr Row on_floats(RowText name, Compute compute, Gradient gradient, const char* why,
                        std::uint32_t flags = 0) {
  return {name, meta_promoted_float, kNone, compute, gradient, why, flags};
}
constexpr Row on_truths(RowText name, Compute compute, Gradient gradient, const char* why,
                        std::uint32_t flags = 0) {
  return {name, meta_bool, kNone, compute, gradient, why, flags};
}
/// The row of a non-decreasing function of one tensor.
constexpr Row rising(RowText name, MetaFn meta, Compute compute, Gradient gradient) {
  return {name,    meta,     kNonDecreasing,
          compute, gradient, "non-decreasing: it commutes with max and min"};
}

/// Adds rows of pointwise ops: their inputs may be uneven, their bits do not depend on the cut, and
/// rules that pass terms refuse a number that makes NaN of a term that is 0.
void add_pointwise_rows(OpRegistry& registry, std::span<const Row> rows);

}  // namespace shardlab
