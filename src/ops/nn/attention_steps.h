// attention_steps.h - the steps that all forms of attention are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "schema/calls.h"

namespace shardlab {

[[noreturn]] void refuse_attention(std::string summary, std::string fix);
[[noreturn]] void refuse_operand(std::string_view op, std::size_t ndim, DType dtype);
void refuse_dropout(std::string_view op, double share);

/// Makes as many heads as the queries have: each one is repeated `heads` over its own count times,
/// side by side.
DTensor with_heads(Calls& calls, const DTensor& x, std::int64_t heads);
/// The way back: each of `own` heads is the sum of its repetitions.
DTensor of_heads(Calls& calls, const DTensor& gradient, std::int64_t own);
/// The given one, or 1 / sqrt(features).
double attention_scale(const DTensor& query, const Argument& scale);
/// Both factors carry the root of the scale, as in the reference's math form; the queries its sign.
DTensor attention_scores(Calls& calls, const DTensor& query, const DTensor& key, double scale);
/// f64, or f32 for all others.
DType inside_dtype(DType dtype);

/// In f32, or f64: the weights of each query over the keys, their sum of the values, and per query
/// the logarithm of the sum of the exponentials of its scores: the largest weight is the
/// exponential of the largest score over that sum.
struct Attended {
  DTensor weights, output, log_sum;
};
Attended attended(Calls& calls, const DTensor& query, const DTensor& key, const DTensor& value,
                  const Argument& mask, bool causal, double scale);

}  // namespace shardlab
