// Fused attention of the GPU kernels: known to propagation, computed nowhere here. Heads and batch
// are independent.
#include "base/fix.h"
#include "ops/arguments.h"
#include "ops/register.h"
#include "ops/rows.h"
#include "ops/rules.h"

namespace shardlab {
namespace {

constexpr std::size_t kOutputs = 9;  // two of them numbers, which have no layout

/// query, key, value [batch, heads, length, width]
std::vector<OutputMeta> meta_flash_attention(const MetaArgs& args) {
  const TensorMeta& query = *args.tensor(0);
  for (const std::size_t i : {0, 1, 2}) {
    if (args.tensor(i)->shape.size() != 4) {
      fail(ErrorKind::kValue,
           Fix{"reshape them to [batch, heads, length, width]; x.unsqueeze(0) adds a dim"},
           "{} takes tensors of 4 dims, not {}", args.op().name(), args.tensor(i)->shape.size());
    }
  }
  const Dims& shape = query.shape;
  std::vector<OutputMeta> outputs(kOutputs, OutputMeta{{}, false});
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

// clang-format off
constexpr Row kAttentionRows[] = {
    {"_scaled_dot_product_flash_attention", meta_flash_attention, rule_flash_attention, {}, {}, {},
     "heads and samples are independent", kRandom, {5}},
};
// clang-format on

}  // namespace

void register_attention(OpRegistry& registry) { add_rows(registry, kAttentionRows); }

}  // namespace shardlab
