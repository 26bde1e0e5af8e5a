// Attention: the form that is taken apart, the CPU's fused kernel, and that of the GPUs, which is
// known to propagation and computed nowhere here. Heads and batch are independent.
#include <cmath>
#include <limits>

#include "base/fix.h"
#include "ops/arguments.h"
#include "ops/matmul.h"
#include "ops/register.h"
#include "ops/rows.h"
#include "ops/rules.h"

namespace shardlab {
namespace {

constexpr std::size_t kOutputs = 9;  // two of them numbers, which have no layout

/// query, key, value [batch, heads, length, width]
OutputMetas meta_flash_attention(const MetaArgs& args) {
  const TensorMeta& query = *args.tensor(0);
  for (const std::size_t i : {0, 1, 2}) {
    if (args.tensor(i)->shape.size() != 4) {
      fail(ErrorKind::kValue,
           Fix{"reshape them to [batch, heads, length, width]; x.unsqueeze(0) adds a dim"},
           "{} takes tensors of 4 dims, not {}", args.op().name(), args.tensor(i)->shape.size());
    }
  }
  const Dims& shape = query.shape;
  OutputMetas outputs(kOutputs, OutputMeta{{}, false});
  outputs[0] = {contiguous_meta(shape, query.dtype)};
  outputs[1] = {contiguous_meta(Dims{shape[0], shape[1], shape[2]}, DType::kF32)};
  outputs[6] = {contiguous_meta(Dims{2}, DType::kU64)};
  outputs[8] = {contiguous_meta(Dims{0}, query.dtype)};
  return outputs;
}

std::vector<RuleRow> rule_flash_attention(const RuleContext& context) {
  const bool debug_mask = context.schema.args[5].to_bool();
  std::vector<RuleRow> rows;
  for (const std::int64_t dim : {1, 0}) {
    const RulePlacement shard = RulePlacement::any(dim), whole = placement_of_letter('r');
    RuleRow row = uniform_row(RulePlacement::none(), kOutputs, 0);
    row.outputs[0] = row.outputs[1] = shard;
    row.outputs[6] = whole;
    row.outputs[8] = debug_mask ? shard : whole;
    row.inputs.assign(3, shard);
    rows.push_back(std::move(row));
  }
  return rows;
}

[[noreturn]] void refuse_attention(std::string summary, std::string fix) {
  throw Error(ErrorKind::kValue, std::move(summary)).with("fix", std::move(fix));
}

Results alone(DTensor x) { return {Argument(std::move(x))}; }

DTensor attention_cast(Calls& calls, const DTensor& x, DType dtype) {
  return x.dtype() == dtype ? x : calls.one("_to_copy", {x, dtype});
}

/// The weights of each query over the keys: 0 and -inf where `mask` is boolean, else added.
DTensor masked_scores(Calls& calls, const DTensor& scores, const Argument& mask, bool causal) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  if (causal) {
    if (mask.is_tensor()) {
      refuse_attention("scaled_dot_product_attention: attn_mask is given and is_causal is True",
                       "leave one of them out");
    }
    const Dims square{scores.shape()[scores.ndim() - 2], scores.shape().back()};
    const DTensor ones = calls.one("new_ones", {scores, square, DType::kBool});
    const DTensor future = calls.one("triu", {ones, 1});
    return calls.one("masked_fill.Scalar", {scores, future, kNever});
  }
  if (!mask.is_tensor()) return scores;
  if (mask.tensor().dtype() != DType::kBool) return calls.one("add.Tensor", {scores, mask});
  const DTensor hidden = calls.one("logical_not", {mask});
  return calls.one("masked_fill.Scalar", {scores, hidden, kNever});
}

/// As many heads as the queries have: each one stands for `heads` over its own count, side by side.
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
  return reshape(calls, calls.one("expand", {apart, spread}), joined);
}

double attention_scale(const DTensor& query, const Argument& scale) {
  return scale.is_none() ? 1.0 / std::sqrt(static_cast<double>(query.shape().back()))
                         : scale.to_double();
}

/// Both factors carry the root of the scale, as in the reference's math form.
DTensor attention_scores(Calls& calls, const DTensor& query, const DTensor& key, double scale) {
  const double root = std::sqrt(scale);
  const DTensor scaled = calls.one("mul.Scalar", {query, root});
  const DTensor keys = calls.one("transpose.int", {key, -2, -1});
  return matmul(calls, scaled, calls.one("mul.Scalar", {keys, root}));
}

/// _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, *,
/// attn_mask, scale): the output, and per query the logarithm of the sum of the exponentials. The
/// largest weight is the exponential of the largest score over that sum.
Results flash_attention(Calls& calls, const Arguments& args) {
  const DType dtype = args[0].tensor().dtype();
  const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;  // inside of the kernel
  const DTensor query = attention_cast(calls, args[0].tensor(), wide);
  const std::int64_t heads = query.shape()[1];
  const DTensor key = with_heads(calls, attention_cast(calls, args[1].tensor(), wide), heads);
  const DTensor value = with_heads(calls, attention_cast(calls, args[2].tensor(), wide), heads);
  if (args[3].to_double() != 0) {
    refuse_attention("_scaled_dot_product_flash_attention_for_cpu: dropout_p is not 0",
                     "call scaled_dot_product_attention, which has dropout");
  }
  const DTensor scores =
      masked_scores(calls, attention_scores(calls, query, key, attention_scale(query, args[6])),
                    args[5], args[4].to_bool());
  const DTensor weights = calls.one("_softmax", {scores, -1, false});
  const Dims last{-1};
  const DTensor highest = calls.one("amax", {scores, last, false});
  const DTensor share = calls.one("amax", {weights, last, false});
  // Laid out as the reference's kernel does: heads beside each other.
  const DTensor side_by_side =
      contiguous(calls, calls.one("transpose.int", {matmul(calls, weights, value), 1, 2}));
  const DTensor output = attention_cast(calls, side_by_side, dtype);
  return {Argument(calls.one("transpose.int", {output, 1, 2})),
          Argument(calls.one("sub.Tensor", {highest, calls.one("log", {share})}))};
}

/// What the reference's fused kernel takes: others are computed in the math form.
bool takes_flash(const DTensor& query, const DTensor& key, const DTensor& value,
                 const Argument& mask, double dropout) {
  if (dropout != 0 || query.ndim() != 4 || key.ndim() != 4 || value.ndim() != 4) return false;
  if (query.shape()[3] != key.shape()[3] || query.shape()[3] != value.shape()[3]) return false;
  if (query.shape()[0] != key.shape()[0] || query.numel() == 0 || key.numel() == 0) return false;
  for (const std::size_t dim : {0, 1, 2}) {
    if (key.shape()[dim] != value.shape()[dim]) return false;
  }
  if (!is_floating(query.dtype())) return false;
  if (query.dtype() != key.dtype() || query.dtype() != value.dtype()) return false;
  if (!mask.is_tensor()) return true;
  const DTensor& given = mask.tensor();
  return !given.requires_grad() && (given.ndim() == 2 || given.ndim() == 4);
}

/// As numbers that are added to the scores: 0 and -inf.
Argument added_mask(Calls& calls, const Argument& mask, DType dtype) {
  if (!mask.is_tensor() || mask.tensor().dtype() != DType::kBool) return mask;
  const DTensor hidden = calls.one("logical_not", {mask});
  const DTensor zeros = calls.one("zeros_like", {mask, dtype});
  return calls.one("masked_fill.Scalar", {zeros, hidden, -std::numeric_limits<double>::infinity()});
}

/// scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, *, scale,
/// enable_gqa)
Results scaled_attention(Calls& calls, const Arguments& args) {
  const DTensor& query = args[0].tensor();
  DTensor key = args[1].tensor(), value = args[2].tensor();
  const double dropout = args[4].to_double();
  const bool causal = args[5].to_bool(), grouped = args[7].to_bool();
  const bool both_masks = causal && args[3].is_tensor();
  const bool flash = !both_masks && takes_flash(query, key, value, args[3], dropout);
  if (flash &&
      (key.shape()[1] == query.shape()[1] || (grouped && query.shape()[1] % key.shape()[1] == 0))) {
    const Argument mask = added_mask(calls, args[3], query.dtype());
    return {calls("_scaled_dot_product_flash_attention_for_cpu",
                  {query, key, value, 0.0, causal, mask, args[6]})[0]};
  }
  if (grouped && query.ndim() > 2) {
    const std::int64_t heads = query.shape()[query.ndim() - 3];
    key = with_heads(calls, key, heads);
    value = with_heads(calls, value, heads);
  }
  const double scale = attention_scale(query, args[6]);
  const DTensor masked =
      masked_scores(calls, attention_scores(calls, query, key, scale), args[3], causal);
  DTensor weights = calls.one("_softmax", {masked, -1, false});
  if (dropout > 0) weights = calls.one("dropout", {weights, args[4], true});
  return alone(matmul(calls, weights, value));
}

// clang-format off
constexpr Row kAttentionRows[] = {
    {"_scaled_dot_product_flash_attention", meta_flash_attention, rule_flash_attention, {}, {}, {},
     "heads and samples are independent", kRandom, {5}},
    {"_scaled_dot_product_flash_attention_for_cpu", nullptr, {}, flash_attention, {},
     {nullptr, "query key value attn_mask result0 result1 !attn_mask !result1"},
     "one kernel: weights are made again for the gradient"},
    {"scaled_dot_product_attention", nullptr, {}, scaled_attention, {}, {},
     "matmul, softmax, matmul"},
};
// clang-format on

}  // namespace

void register_attention(OpRegistry& registry) { add_rows(registry, kAttentionRows); }

}  // namespace shardlab
