// Embedding tables. A table cut by rows answers only the lookups of its own rows, the others are
// masked; a table cut by columns gives columns of the result.
#include <algorithm>

#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

/// embedding(weight [rows, columns], indices): [.., columns]
OutputMetas meta_embedding(const MetaArgs& args) {
  const TensorMeta& weight = *args.tensor(0);
  const TensorMeta& indices = *args.tensor(1);
  if (weight.shape.size() != 2) {
    fail(Fix{"give a table of shape [rows, columns]"}, "embedding takes a table of 2 dims, not {}",
         weight.shape.size());
  }
  if (indices.dtype != DType::kI64 && indices.dtype != DType::kI32) {
    fail(Fix{"cast them: indices.to(torch.int64)"},
         "embedding takes indices of dtype i64 or i32, not {}", to_string(indices.dtype));
  }
  Dims shape = indices.shape;
  shape.push_back(weight.shape[1]);
  return {{contiguous_meta(shape, weight.dtype)}};
}

std::vector<RuleRow> rule_embedding(const RuleContext& context) {
  const auto dims = static_cast<std::int64_t>(context.tensors[1]->ndim());
  const RulePlacement mask = RulePlacement::of(
      Placement::mask_partial(ReduceOp::kSum, intern_mask_shape(context.tensors[0]->shape()), 0));
  std::vector<RuleRow> rows;
  rows.push_back({{plain_shard(dims)}, {plain_shard(1), whole()}});
  rows.push_back({{mask}, {plain_shard(0), mask}});
  for (std::int64_t d = 0; d < dims; ++d)
    rows.push_back({{plain_shard(d)}, {whole(), plain_shard(d)}});
  return rows;
}

/// embedding_dense_backward(grad_output, indices, num_weights, ..): [num_weights, columns]
OutputMetas meta_embedding_backward(const MetaArgs& args) {
  const TensorMeta& grad = *args.tensor(0);
  const Dims& indices = args.tensor(1)->shape;
  if (grad.shape.empty()) {
    fail(Fix{"pass a gradient of shape [*indices.shape, columns]"},
         "{}: the gradient has no dims; it must have at least one", args.op().base);
  }
  if (!std::equal(indices.begin(), indices.end(), grad.shape.begin(), grad.shape.end() - 1)) {
    fail(Fix{"pass a gradient of shape [*indices.shape, columns]"},
         "{}: the gradient has shape [{}], the indices [{}]; it must have their shape and a dim of "
         "columns",
         args.op().base, text_of_list(grad.shape, ", "), text_of_list(indices, ", "));
  }
  return {{contiguous_meta(Dims{args[2].to_int(), grad.shape.back()}, grad.dtype)}};
}

std::vector<RuleRow> rule_embedding_backward(const RuleContext& context) {
  const auto last = static_cast<std::int64_t>(context.tensors[0]->ndim()) - 1;
  const auto dims = static_cast<std::int64_t>(context.tensors[1]->ndim());
  std::vector<RuleRow> rows;
  rows.push_back({{plain_shard(1)}, {plain_shard(last), whole()}});
  const bool by_count = context.schema.args[4].to_bool();  // number of lookups of a row anywhere
  for (std::int64_t d = 0; d < dims && !by_count; ++d) {
    rows.push_back({{sum()}, {plain_shard(d), plain_shard(d)}});
  }
  rows.push_back({{sum()}, {sum(), whole()}});
  return rows;
}

Gradients grad_embedding(const GradContext& context) {
  return {context.calls.one("aten::embedding_dense_backward",
                            {context.grads[0], input(context, 1), input(context, 0).shape()[0],
                             context.inputs[2], context.inputs[3]})};
}

/// (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq): each lookup gets the
/// gradient of its row.
Gradients grad_embedding_backward(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& indices = input(context, 1);
  Expression rows = flowing(context);
  if (context.inputs[4].to_bool()) {
    const DTensor ones = calls.one("aten::ones_like", {input(context, 0)});
    const Expression counts(calls, calls.one("aten::embedding_dense_backward",
                                             {ones, indices, context.inputs[2], -1, false}));
    rows = rows / counts.with("aten::clamp_min", 1);
  }
  const Expression each(calls, calls.one("aten::embedding", {rows, indices}));
  if (context.inputs[3].to_int() < 0) return {each};
  const Expression padding(calls, calls.one("aten::unsqueeze", {indices, -1}));
  return {each.filled(padding.eq(context.inputs[3]), 0)};
}

// Sorted by name.
// clang-format off
constexpr Row kLookupRows[] = {
    {"embedding"_op, meta_embedding, rule_embedding,
     MaskedLookup{KernelId::kEmbedding, KernelId::kEmbeddingMasked}, {grad_embedding, "indices"},
     "a mask says which rank owns a row", kNeedsPosition | kExact},
    {"embedding_dense_backward"_op, meta_embedding_backward, rule_embedding_backward,
     KernelId::kEmbeddingDenseBackward, {grad_embedding_backward, "indices"},
     "lookups of one row add up", kSumsLinearly, {2}},
};
// clang-format on

}  // namespace

void register_lookup(OpRegistry& registry) { add_rows(registry, kLookupRows); }

}  // namespace shardlab
