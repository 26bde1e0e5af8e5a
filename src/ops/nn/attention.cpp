// Attention: the form that is taken apart, the CPU's fused kernel, and those of the GPUs, which are
// computed here as the same products and softmax. Heads and samples are independent.
#include <limits>

#include "ops/family.h"
#include "ops/nn/attention_steps.h"

namespace shardlab {
namespace {

/// _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, *,
/// attn_mask, scale)
Results flash_attention(Calls& calls, const Arguments& args) {
  const DType dtype = args[0].tensor().dtype(), wide = inside_dtype(dtype);
  const DTensor query = cast_to(calls, args[0].tensor(), wide);
  const std::int64_t heads = query.shape()[1];
  const DTensor key = with_heads(calls, cast_to(calls, args[1].tensor(), wide), heads);
  const DTensor value = with_heads(calls, cast_to(calls, args[2].tensor(), wide), heads);
  refuse_dropout("_scaled_dot_product_flash_attention_for_cpu", args[3].to_double());
  const Attended found = attended(calls, query, key, value, args[5], args[4].to_bool(),
                                  attention_scale(query, args[6]));
  // Laid out as the reference's kernel does: heads side by side.
  const DTensor side_by_side = contiguous(calls, calls.one("transpose.int", {found.output, 1, 2}));
  const DTensor output = cast_to(calls, side_by_side, dtype);
  return {calls.one("transpose.int", {output, 1, 2}), Argument(found.log_sum)};
}

/// Whether the reference's fused kernel takes them: others are computed in the math form.
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

/// Turns a mask into numbers that are added to the scores: 0 and -inf.
Argument added_mask(Calls& calls, const Argument& mask, DType dtype) {
  if (!mask.is_tensor() || mask.tensor().dtype() != DType::kBool) return mask;
  const DTensor hidden = calls.one("logical_not", {mask});
  const DTensor zeros = calls.one("zeros_like", {mask, dtype});
  return calls.one("masked_fill.Scalar", {zeros, hidden, -std::numeric_limits<double>::infinity()});
}

/// The mask that is added to the scores: the given one, or one in which each query sees the keys up
/// to its own place.
Argument mask_of_scores(Calls& calls, const DTensor& scores, const Argument& mask, bool causal) {
  if (!causal) return mask;
  if (mask.is_tensor()) {
    refuse_attention("scaled_dot_product_attention: attn_mask is given and is_causal is True",
                     "leave one of them out");
  }
  const Dims square{scores.shape()[scores.ndim() - 2], scores.shape().back()};
  const DTensor ones = calls.one("new_ones", {scores, square, DType::kBool});
  return added_mask(calls, calls.one("tril", {ones}), scores.dtype());
}

/// _scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal,
/// dropout_mask, *, scale, enable_gqa): the output and the weights; half types are computed in f32.
Results math_attention(Calls& calls, const Arguments& args) {
  const DType dtype = args[0].tensor().dtype(), wide = f32_for_half(dtype);
  const DTensor query = cast_to(calls, args[0].tensor(), wide);
  DTensor key = cast_to(calls, args[1].tensor(), wide);
  DTensor value = cast_to(calls, args[2].tensor(), wide);
  if (args[8].to_bool() && query.ndim() > 2) {
    const std::int64_t heads = query.shape()[query.ndim() - 3];
    key = with_heads(calls, key, heads);
    value = with_heads(calls, value, heads);
  }
  const DTensor products = attention_scores(calls, query, key, attention_scale(query, args[7]));
  const Argument mask = mask_of_scores(calls, products, args[3], args[5].to_bool());
  const DTensor scores = mask.is_tensor() ? calls.one("add.Tensor", {products, mask}) : products;
  DTensor weights = calls.one("_safe_softmax", {scores, -1});
  const double dropout = args[4].to_double();
  if (dropout > 0 && args[6].is_tensor()) {
    const DTensor dropped = calls.one("logical_not", {args[6]});
    weights = calls.one("masked_fill.Scalar", {weights, dropped, 0.0});
    value = calls.one("mul.Scalar", {value, 1.0 / (1.0 - dropout)});
  } else if (dropout > 0) {
    weights = calls.one("dropout", {weights, args[4], true});
  }
  const DTensor output = matmul(calls, weights, value);
  return {cast_to(calls, output, dtype), cast_to(calls, weights, dtype)};
}

void check_operands(const DTensor& query, const DTensor& key, const DTensor& value,
                    const Argument& mask) {
  const std::size_t least = std::min({query.ndim(), key.ndim(), value.ndim()});
  if (least < 2) {
    refuse_attention(fmt::format("scaled_dot_product_attention: an operand has {} dims", least),
                     "give queries, keys and values [.., length, width]");
  }
  if (query.dtype() != key.dtype() || query.dtype() != value.dtype()) {
    refuse_attention(
        fmt::format("scaled_dot_product_attention: queries are {}, keys {} and values {}",
                    to_string(query.dtype()), to_string(key.dtype()), to_string(value.dtype())),
        "cast them to one dtype");
  }
  if (!mask.is_tensor()) return;
  const DType dtype = mask.tensor().dtype();
  if (dtype == DType::kBool || is_floating(dtype)) return;
  refuse_attention(fmt::format("scaled_dot_product_attention: a mask of {}", to_string(dtype)),
                   "give a mask of bool, or numbers that are added");
}

/// scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, *, scale,
/// enable_gqa)
Results scaled_attention(Calls& calls, const Arguments& args) {
  const DTensor &query = args[0].tensor(), &key = args[1].tensor(), &value = args[2].tensor();
  check_operands(query, key, value, args[3]);
  const bool causal = args[5].to_bool(), grouped = args[7].to_bool();
  const bool both_masks = causal && args[3].is_tensor();
  const bool flash = !both_masks && takes_flash(query, key, value, args[3], args[4].to_double());
  const Argument mask = added_mask(calls, args[3], query.dtype());
  if (flash &&
      (key.shape()[1] == query.shape()[1] || (grouped && query.shape()[1] % key.shape()[1] == 0))) {
    return {calls("_scaled_dot_product_flash_attention_for_cpu",
                  {query, key, value, 0.0, causal, mask, args[6]})[0]};
  }
  return {math_attention(
      calls, {query, key, value, mask, args[4], args[5], Argument(), args[6], args[7]})[0]};
}

// The kernels of GPUs.

/// The argument of this name; None where the op has none.
const Argument& called(const OpRow& row, const Arguments& args, std::string_view name) {
  static const Argument kNothing;
  const auto index = row.op.find_argument(name);
  return index ? args[*index] : kNothing;
}

/// query, key, value from `first` on, [samples, heads, length, width].
void check_attention(const MetaArgs& args, std::size_t first) {
  const TensorMeta &query = *args.tensor(first), &key = *args.tensor(first + 1),
                   &value = *args.tensor(first + 2);
  for (const TensorMeta* x : {&query, &key, &value}) {
    if (x->shape.size() == 4 && is_floating(x->dtype) && x->dtype == query.dtype) continue;
    refuse_operand(args.op().name(), x->shape.size(), x->dtype);
  }
  const auto same = [](const TensorMeta& a, const TensorMeta& b, std::size_t dim) {
    return a.shape[dim] == b.shape[dim];
  };
  const std::int64_t heads = key.shape[1];
  const bool shared = heads == query.shape[1] || (heads > 0 && query.shape[1] % heads == 0);
  const bool fits = same(query, key, 0) && same(query, value, 0) && shared && same(key, value, 1) &&
                    same(key, value, 2) && same(query, key, 3);
  if (fits) return;
  fail(Fix{"give as many samples of keys and values as of queries, and as many heads or a divisor "
           "of them"},
       "{}: queries [{}], keys [{}] and values [{}] do not fit together", args.op().name(),
       text_of_list(query.shape, ", "), text_of_list(key.shape, ", "),
       text_of_list(value.shape, ", "));
}

/// Query-like, as wide as the values; heads are side by side where the kernel does so.
TensorMeta output_meta(const MetaArgs& args, bool side_by_side) {
  const TensorMeta& query = *args.tensor(0);
  Dims shape = query.shape;
  shape[3] = args.tensor(2)->shape[3];
  TensorMeta meta = contiguous_meta(shape, query.dtype);
  if (!side_by_side) {
    if (shape == query.shape) meta.stride = preserved_strides(query);
    return meta;
  }
  meta.stride = {shape[2] * shape[1] * shape[3], shape[3], shape[1] * shape[3], 1};
  return meta;
}

/// The bias of the scores: its dims stretch.
void check_bias(const MetaArgs& args, std::size_t bias, std::size_t first) {
  const TensorMeta* given = args.tensor(bias);
  if (given == nullptr) return;
  const Dims &query = args.tensor(first)->shape, &key = args.tensor(first + 1)->shape;
  const Dims scores{query[0], query[1], query[2], key[2]};
  bool fits = given->shape.size() == 4 && given->dtype == args.tensor(first)->dtype;
  for (std::size_t d = 0; fits && d < 4; ++d) {
    fits = given->shape[d] == scores[d] || given->shape[d] == 1;
  }
  if (fits) return;
  fail(Fix{fmt::format("give it the shape [{}]", text_of_list(scores, ", "))},
       "{}: attn_bias [{}] does not fit scores [{}]", args.op().name(),
       text_of_list(given->shape, ", "), text_of_list(scores, ", "));
}

OutputMeta log_sums(Dims shape) { return {contiguous_meta(std::move(shape), DType::kF32)}; }

constexpr std::size_t kFlashOutputs = 9;  // two of them numbers, which have no layout

/// (query, key, value, dropout_p, is_causal, return_debug_mask, *, scale)
OutputMetas meta_flash_attention(const MetaArgs& args) {
  check_attention(args, 0);
  const TensorMeta& query = *args.tensor(0);
  OutputMetas outputs(kFlashOutputs, OutputMeta{{}, false});
  outputs[0] = {output_meta(args, false)};
  outputs[1] = log_sums({query.shape[0], query.shape[1], query.shape[2]});
  outputs[6] = {contiguous_meta(Dims{2}, DType::kU64)};
  outputs[8] = {contiguous_meta(Dims{0}, query.dtype)};
  return outputs;
}

/// (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, ..)
OutputMetas meta_cudnn_attention(const MetaArgs& args) {
  check_attention(args, 0);
  check_bias(args, 3, 0);
  const Dims& shape = args.tensor(0)->shape;
  OutputMetas outputs(kFlashOutputs, OutputMeta{{}, false});
  outputs[0] = {output_meta(args, false)};
  outputs[1] = log_sums({shape[0], shape[1], shape[2], 1});
  return outputs;
}

/// The same; sums are stored in blocks of 32 queries.
OutputMetas meta_efficient_attention(const MetaArgs& args) {
  check_attention(args, 0);
  check_bias(args, 3, 0);
  const Dims& shape = args.tensor(0)->shape;
  const std::int64_t stored = args[4].to_bool() ? (shape[2] + 31) / 32 * 32 : 0;
  return {{output_meta(args, true)},
          log_sums({shape[0], shape[1], stored}),
          OutputMeta{{}, false},
          OutputMeta{{}, false}};
}

/// Gradients of query, key and value, behind the gradient of the output; `side_by_side`: heads are
/// side by side in them.
OutputMetas gradients_of_attention(const MetaArgs& args, bool side_by_side) {
  check_attention(args, 1);
  Dims output = args.tensor(1)->shape;
  output[3] = args.tensor(3)->shape[3];
  const auto out = args.op().find_argument("out");
  for (const std::size_t index : {std::size_t{0}, *out}) {
    if (args.tensor(index) != nullptr && args.tensor(index)->shape == output) continue;
    fail(Fix{fmt::format("give it the shape [{}]", text_of_list(output, ", "))},
         "{}: {} does not have the shape of the output, [{}]", args.op().name(),
         args.op().arguments[index].name, text_of_list(output, ", "));
  }
  OutputMetas outputs;
  for (const std::size_t index : {1, 2, 3}) {
    const TensorMeta& x = *args.tensor(index);
    TensorMeta meta = contiguous_meta(x.shape, x.dtype);
    if (!side_by_side) meta.stride = preserved_strides(x);
    if (side_by_side) {
      meta.stride = {x.shape[2] * x.shape[1] * x.shape[3], x.shape[3], x.shape[1] * x.shape[3], 1};
    }
    outputs.push_back({meta});
  }
  return outputs;
}

OutputMetas meta_fused_backward(const MetaArgs& args) {
  const auto bias = args.op().find_argument("attn_bias");
  OutputMetas outputs = gradients_of_attention(args, false);
  if (bias) check_bias(args, *bias, 1);
  return outputs;
}

/// (.., grad_input_mask, ..): of the bias, too, where it is wanted.
OutputMetas meta_efficient_backward(const MetaArgs& args) {
  OutputMetas outputs = gradients_of_attention(args, true);
  check_bias(args, 4, 1);
  const ArgumentList& mask = args[10].list();
  for (std::size_t i = 0; i < 3; ++i) outputs[i].present = mask[i].to_bool();
  const TensorMeta* bias = args.tensor(4);
  outputs.push_back({{}, false});
  if (bias != nullptr && mask[3].to_bool()) {
    outputs[3] = {contiguous_meta(bias->shape, bias->dtype)};
  }
  return outputs;
}

/// Heads, then samples, in all tensors that have them: `of_output(i, shard)` and `of_input(index,
/// shard)` give the placement of result i and of the tensor argument at a schema index.
std::vector<RuleRow> heads_and_samples(const RuleContext& context, auto of_output, auto of_input) {
  std::vector<RuleRow> rows;
  for (const std::int64_t dim : {1, 0}) {
    RuleRow row;
    for (std::size_t i = 0; i < context.outputs.size(); ++i) {
      row.outputs.push_back(of_output(i, any(dim)));
    }
    for (std::size_t i = 0; i < context.schema.args.size(); ++i) {
      if (context.schema.args[i].is_spec()) row.inputs.push_back(of_input(i, any(dim)));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<RuleRow> rule_flash_attention(const RuleContext& context) {
  const bool debug_mask = context.schema.args[5].to_bool();
  return heads_and_samples(
      context,
      [&](std::size_t i, const RulePlacement& shard) {
        if (i < 2 || (i == 8 && debug_mask)) return shard;
        return i == 6 || i == 8 ? whole() : RulePlacement::none();
      },
      [](std::size_t, const RulePlacement& shard) { return shard; });
}

/// Sums that are not stored leave nothing to cut. cuDNN always stores them.
std::vector<RuleRow> rule_biased_attention(const RuleContext& context) {
  const bool stored = context.outputs[1].meta.shape.back() > 0;
  return heads_and_samples(
      context,
      [&](std::size_t i, const RulePlacement& shard) {
        if (i == 0 || (i == 1 && stored)) return shard;
        return i == 1 ? whole() : RulePlacement::none();
      },
      [](std::size_t, const RulePlacement& shard) { return shard; });
}

/// Results of the kernels about lengths and random numbers stay whole.
std::vector<RuleRow> rule_fused_backward(const RuleContext& context) {
  const OpDescriptor& op = context.schema.row->op;
  return heads_and_samples(
      context,
      [&](std::size_t i, const RulePlacement& shard) {
        return context.outputs[i].present ? shard : RulePlacement::none();
      },
      [&](std::size_t index, const RulePlacement& shard) {
        const std::string_view name = op.arguments[index].name;
        return name.starts_with("philox") || name.starts_with("cum_seq") ? whole() : shard;
      });
}

/// Heads of keys that serve several of queries are cut with all of those: in equal pieces.
const char* heads_filter(const RuleContext& context, std::span<const Placements> inputs) {
  const std::size_t query = *context.schema.row->op.find_argument("query");
  const std::int64_t heads = context.tensors[query + 1]->shape()[1];
  if (context.tensors[query]->shape()[1] == heads) return nullptr;
  std::int64_t pieces = 1;
  for (std::size_t i = 0; i < inputs[query].size(); ++i) {
    if (inputs[query][i] == Placement::shard(1)) pieces *= context.schema.layout->size(i);
  }
  return heads % pieces == 0 ? nullptr
                             : "heads of keys are not on the ranks of the heads that share them";
}

/// Flash, cuDNN and memory-efficient attention; results other than the output and its sums are
/// None, or zeros.
Results fused_attention(Calls& calls, const OpRow& row, const Arguments& args) {
  refuse_dropout(row.name(), called(row, args, "dropout_p").to_double());
  const DType dtype = args[0].tensor().dtype(), wide = inside_dtype(dtype);
  const DTensor query = cast_to(calls, args[0].tensor(), wide);
  const Argument& bias = called(row, args, "attn_bias");
  const auto spread = [&](const Argument& x) {
    return with_heads(calls, cast_to(calls, x.tensor(), wide), query.shape()[1]);
  };
  const DTensor key = spread(args[1]), value = spread(args[2]);
  const Attended found =
      attended(calls, query, key, value, bias, called(row, args, "is_causal").to_bool(),
               attention_scale(query, called(row, args, "scale")));
  DTensor sums = cast_to(calls, found.log_sum, DType::kF32);
  const std::int64_t length = query.shape()[2];
  Results results(row.op.returns.size());
  results[0] = cast_to(calls, found.output, dtype);
  if (bias.is_none() && !row.op.find_argument("attn_bias")) {
    results[6] = calls.one("new_zeros", {query, Dims{2}, DType::kU64});
    results[8] = calls.one("new_zeros", {query, Dims{0}, dtype});
  } else if (results.size() == kFlashOutputs) {
    sums = calls.one("unsqueeze", {sums, -1});
  } else if (called(row, args, "compute_log_sumexp").to_bool()) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    sums = calls.one("constant_pad_nd", {sums, Dims{0, (length + 31) / 32 * 32 - length}, kNever});
  } else {
    sums = calls.one("slice.Tensor", {sums, -1, 0, 0});
  }
  results[1] = sums;
  return results;
}

/// Gradients through output = softmax(scores) value, scores = scale query key^T + bias.
Results fused_attention_backward(Calls& calls, const OpRow& row, const Arguments& args) {
  refuse_dropout(row.name(), called(row, args, "dropout_p").to_double());
  for (const Argument& x : {args[1], args[2], args[3], args[0], called(row, args, "out")}) {
    if (x.tensor().ndim() != 4) refuse_operand(row.name(), x.tensor().ndim(), x.tensor().dtype());
  }
  const DType wide = inside_dtype(args[1].tensor().dtype());
  const auto in_wide = [&](const Argument& x) { return cast_to(calls, x.tensor(), wide); };
  const DTensor query = in_wide(args[1]);
  const std::int64_t heads = query.shape()[1];
  const DTensor key = with_heads(calls, in_wide(args[2]), heads);
  const DTensor value = with_heads(calls, in_wide(args[3]), heads);
  const DTensor g = in_wide(args[0]), output = in_wide(called(row, args, "out"));
  const bool named_mask = row.op.find_argument("attn_mask").has_value();
  const Argument& bias = called(row, args, named_mask ? "attn_mask" : "attn_bias");
  const double scale = attention_scale(query, called(row, args, "scale"));
  const DTensor weights =
      attended(calls, query, key, value, bias, called(row, args, "is_causal").to_bool(), scale)
          .weights;
  const auto turned = [&](const DTensor& x) { return calls.one("transpose.int", {x, -2, -1}); };
  const Expression w(calls, weights), along(calls, matmul(calls, g, turned(value)));
  const Expression total(
      calls, calls.one("sum.dim_IntList", {calls.one("mul.Tensor", {g, output}), Dims{-1}, true}));
  const Expression of_scores = w * (along - total);
  const DTensor scaled = of_scores * scale;
  const DTensor found[] = {matmul(calls, scaled, key), matmul(calls, turned(scaled), query),
                           matmul(calls, turned(weights), g)};
  const Argument& mask = called(row, args, "grad_input_mask");
  Results results;
  for (std::size_t i = 0; i < 3; ++i) {
    const bool wanted = mask.is_none() || mask.list()[i].to_bool();
    const DTensor& x = args[1 + i].tensor();
    const std::int64_t own = x.shape()[1];
    results.push_back(wanted ? Argument(cast_to(calls, of_heads(calls, found[i], own), x.dtype()))
                             : Argument());
  }
  if (row.op.returns.size() == 3) return results;
  const bool wanted = bias.is_tensor() && mask.list()[3].to_bool();
  results.push_back(wanted ? Argument(grad::sum_to(calls, of_scores, bias.tensor())) : Argument());
  return results;
}

/// The way back through the CPU's kernel. A mask may stretch along any dim: then it is taken apart.
std::vector<RuleRow> rule_cpu_backward(const RuleContext& context) {
  if (!context.schema.arg("attn_mask").is_spec()) return rule_fused_backward(context);
  throw Error(ErrorKind::kUnsupported, "the mask of an attention is laid out call by call");
}
Results flash_attention_backward(Calls& calls, const Arguments& args) {
  const OpRow& row = calls.find("_scaled_dot_product_flash_attention_for_cpu_backward");
  return fused_attention_backward(calls, row, args);
}

using grad::Gradients;

/// (query, key, value, dropout_p, is_causal, ..)
Gradients grad_flash(const GradContext& context) {
  if (!context.grads[0].defined()) return Gradients(3);
  const Arguments& args = context.inputs;
  const DTensor &query = args[0].tensor(), &key = args[1].tensor();
  const Results results =
      context.calls("_scaled_dot_product_flash_attention_backward",
                    {context.grads[0], args[0], args[1], args[2], context.outputs[0],
                     context.outputs[1], Argument(), Argument(), query.shape()[2], key.shape()[2],
                     args[3], args[4], Argument(), Argument(), args[6]});
  return {results[0].tensor(), results[1].tensor(), results[2].tensor()};
}

/// (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, *, scale)
Gradients grad_efficient(const GradContext& context) {
  if (!context.grads[0].defined()) return Gradients(4);
  const Arguments& args = context.inputs;
  const ArgumentList mask{true, true, true, args[3].is_tensor() && context.needs(3)};
  const Results results =
      context.calls("_scaled_dot_product_efficient_attention_backward",
                    {context.grads[0], args[0], args[1], args[2], args[3], context.outputs[0],
                     context.outputs[1], Argument(), Argument(), args[5], mask, args[6], args[7]});
  Gradients gradients(4);
  for (std::size_t i = 0; i < 4; ++i) {
    if (results[i].is_tensor()) gradients[i] = results[i].tensor();
  }
  return gradients;
}

/// (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, return_debug_mask, *,
/// scale): the bias has none.
Gradients grad_cudnn(const GradContext& context) {
  if (!context.grads[0].defined()) return Gradients(4);
  const Arguments& args = context.inputs;
  const DTensor &query = args[0].tensor(), &key = args[1].tensor();
  const Results results =
      context.calls("_scaled_dot_product_cudnn_attention_backward",
                    {context.grads[0], args[0], args[1], args[2], context.outputs[0],
                     context.outputs[1], Argument(), Argument(), args[3], Argument(), Argument(),
                     query.shape()[2], key.shape()[2], args[5], args[6], args[8]});
  return {results[0].tensor(), results[1].tensor(), results[2].tensor()};
}

constexpr const char* kHeads = "heads and samples are independent";

// Sorted by name.
// clang-format off
constexpr Row kAttentionRows[] = {
    composite("_scaled_dot_product_attention_math"_op, math_attention,
              "two products and a softmax"),
    {"_scaled_dot_product_cudnn_attention"_op, meta_cudnn_attention, rule_biased_attention,
     fused_attention, {grad_cudnn, "query key value attn_bias result0 result1 !attn_bias !result1"},
     kHeads, 0, {4}, heads_filter},
    {"_scaled_dot_product_cudnn_attention_backward"_op, meta_fused_backward, rule_fused_backward,
     fused_attention_backward, {}, kHeads, 0, {}, heads_filter},
    {"_scaled_dot_product_efficient_attention"_op, meta_efficient_attention, rule_biased_attention,
     fused_attention, {grad_efficient, "query key value attn_bias result0 result1 !result1"},
     kHeads, 0, {4}, heads_filter},
    {"_scaled_dot_product_efficient_attention_backward"_op, meta_efficient_backward,
     rule_fused_backward, fused_attention_backward, {}, kHeads, 0, {}, heads_filter},
    {"_scaled_dot_product_flash_attention"_op, meta_flash_attention, rule_flash_attention,
     fused_attention, {grad_flash, "query key value result0 result1 !result1 !result8"}, kHeads, 0,
     {5}, heads_filter},
    {"_scaled_dot_product_flash_attention_backward"_op, meta_fused_backward, rule_fused_backward,
     fused_attention_backward, {}, kHeads, 0, {}, heads_filter},
    composite("_scaled_dot_product_flash_attention_for_cpu"_op, flash_attention,
              {nullptr, "query key value attn_mask result0 result1 !attn_mask !result1"},
              "one kernel: weights are made again for the gradient"),
    {"_scaled_dot_product_flash_attention_for_cpu_backward"_op, meta_fused_backward,
     rule_cpu_backward, RuleOrParts{flash_attention_backward}, {}, kHeads, 0, {}, heads_filter},
    composite("scaled_dot_product_attention"_op, scaled_attention, "matmul, softmax, matmul"),
};
// clang-format on

}  // namespace

void register_attention(OpRegistry& registry) { add_rows(registry, kAttentionRows); }

}  // namespace shardlab
