// Heads and samples are independent; half types are computed in f32.
#include "ops/nn/attention_steps.h"

#include <cmath>
#include <limits>

#include "ops/family.h"

namespace shardlab {

void refuse_attention(std::string summary, std::string fix) {
  fail(Fix{std::move(fix)}, "{}", std::move(summary));
}

void refuse_operand(std::string_view op, std::size_t ndim, DType dtype) {
  refuse_attention(fmt::format("{} takes tensors of floats of 4 dims and one dtype, not {} dims of "
                               "{}",
                               op, ndim, to_string(dtype)),
                   "reshape them to [batch, heads, length, width]; x.unsqueeze(0) adds a dim");
}

DTensor with_heads(Calls& calls, const DTensor& x, std::int64_t heads) {
  const std::size_t at = x.ndim() < 3 ? 0 : x.ndim() - 3;
  const std::int64_t own = x.ndim() < 3 ? 1 : x.shape()[at];
  if (own == heads) return x;
  if (x.ndim() < 3 || own == 0 || heads % own != 0) {
    refuse_attention(
        fmt::format("scaled_dot_product_attention: {} heads of keys or values for {} heads of "
                    "queries",
                    own, heads),
        "the number of heads of the queries must be a multiple of the others'");
  }
  Dims spread = x.shape(), joined = x.shape();
  spread.insert(at + 1, heads / own);
  joined[at] = heads;
  const DTensor apart = calls.one("unsqueeze", {x, static_cast<std::int64_t>(at) + 1});
  return regrouped(calls, calls.one("expand", {apart, spread}), joined);
}

DTensor of_heads(Calls& calls, const DTensor& gradient, std::int64_t own) {
  const std::int64_t heads = gradient.shape()[1];
  if (heads == own) return gradient;
  Dims apart = gradient.shape();
  apart[1] = own;
  apart.insert(2, heads / own);
  return calls.one("sum.dim_IntList", {reshape(calls, gradient, apart), Dims{2}});
}

double attention_scale(const DTensor& query, const Argument& scale) {
  if (query.ndim() == 0) {
    fail(Fix{"give [.., queries, features]"},
         "attention: the query has no dims; its last one must be its features");
  }
  return scale.is_none() ? 1.0 / std::sqrt(static_cast<double>(query.shape().back()))
                         : scale.to_double();
}

DType inside_dtype(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

void refuse_dropout(std::string_view op, double share) {
  if (share == 0) return;
  refuse_attention(fmt::format("{}: dropout_p is not 0", op),
                   "call scaled_dot_product_attention, which has dropout");
}

DTensor attention_scores(Calls& calls, const DTensor& query, const DTensor& key, double scale) {
  const double root = std::sqrt(std::abs(scale));
  const DTensor scaled = calls.one("mul.Scalar", {query, scale < 0 ? -root : root});
  const DTensor keys = calls.one("transpose.int", {key, -2, -1});
  return matmul(calls, scaled, calls.one("mul.Scalar", {keys, root}));
}

namespace {

/// With the bias, which hides where it is boolean and false, and is added else; behind it, the
/// future is hidden where `causal`.
DTensor biased_scores(Calls& calls, const DTensor& scores, const Argument& bias, bool causal) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  DTensor biased = scores;
  if (bias.is_tensor() && bias.tensor().dtype() == DType::kBool) {
    biased = calls.one("masked_fill.Scalar", {scores, calls.one("logical_not", {bias}), kNever});
  } else if (bias.is_tensor()) {
    biased = calls.one("add.Tensor", {scores, bias});
  }
  if (!causal) return biased;
  const Dims square{scores.shape()[scores.ndim() - 2], scores.shape().back()};
  const DTensor ones = calls.one("new_ones", {biased, square, DType::kBool});
  return calls.one("masked_fill.Scalar", {biased, calls.one("triu", {ones, 1}), kNever});
}

}  // namespace

Attended attended(Calls& calls, const DTensor& query, const DTensor& key, const DTensor& value,
                  const Argument& mask, bool causal, double scale) {
  const DTensor scores =
      biased_scores(calls, attention_scores(calls, query, key, scale), mask, causal);
  const DTensor weights = calls.one("_softmax", {scores, -1, false});
  const Dims last{-1};
  const DTensor highest = calls.one("amax", {scores, last, false});
  const DTensor share = calls.one("amax", {weights, last, false});
  return {weights, matmul(calls, weights, value),
          calls.one("sub.Tensor", {highest, calls.one("log", {share})})};
}

}  // namespace shardlab
