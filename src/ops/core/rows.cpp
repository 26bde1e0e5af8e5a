// From a family's table to rows of a registry. A variant is its base row with another schema: rules
// and kernels are written for the base op and see calls of variants as calls of it.
#include "ops/core/rows.h"

#include "ops/core/derived.h"
#include "schema/aten_schemas.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

/// Facts that ATen's schemas leave out: in training batch norm writes its running statistics, and
/// the results of attention kernels about lengths and random numbers may be None.
enum class Unsaid : std::uint8_t { kWritten, kMayBeNone };
struct UnsaidArgument {
  std::string_view op, argument;
  Unsaid what;
};
constexpr std::string_view kCudnnBackward = "aten::_scaled_dot_product_cudnn_attention_backward";
constexpr std::string_view kEfficientBackward =
    "aten::_scaled_dot_product_efficient_attention_backward";
constexpr std::string_view kFlashBackward = "aten::_scaled_dot_product_flash_attention_backward";
constexpr UnsaidArgument kUnsaid[] = {
    {"aten::cudnn_batch_norm", "running_mean", Unsaid::kWritten},
    {"aten::cudnn_batch_norm", "running_var", Unsaid::kWritten},
    {"aten::miopen_batch_norm", "running_mean", Unsaid::kWritten},
    {"aten::miopen_batch_norm", "running_var", Unsaid::kWritten},
    {"aten::native_batch_norm", "running_mean", Unsaid::kWritten},
    {"aten::native_batch_norm", "running_var", Unsaid::kWritten},
    {kCudnnBackward, "attn_bias", Unsaid::kMayBeNone},
    {kCudnnBackward, "cum_seq_k", Unsaid::kMayBeNone},
    {kCudnnBackward, "cum_seq_q", Unsaid::kMayBeNone},
    {kCudnnBackward, "philox_offset", Unsaid::kMayBeNone},
    {kCudnnBackward, "philox_seed", Unsaid::kMayBeNone},
    {kEfficientBackward, "attn_bias", Unsaid::kMayBeNone},
    {kEfficientBackward, "philox_offset", Unsaid::kMayBeNone},
    {kEfficientBackward, "philox_seed", Unsaid::kMayBeNone},
    {kFlashBackward, "cum_seq_k", Unsaid::kMayBeNone},
    {kFlashBackward, "cum_seq_q", Unsaid::kMayBeNone},
    {kFlashBackward, "philox_offset", Unsaid::kMayBeNone},
    {kFlashBackward, "philox_seed", Unsaid::kMayBeNone},
};

/// Finds the schema of an op of ATen by its name, or takes the text as the schema.
std::string_view schema_of(std::string_view name) {
  return name.find('(') == std::string_view::npos ? aten_schema(name) : name;
}

OpRow base_row(const Row& row) {
  OpRow made;
  made.op = aten_descriptor(schema_of(row.name.text));
  made.meta = row.meta;
  made.rule = row.rule;
  made.filter = row.filter;
  made.info.static_argnum = row.decisive.first;
  if (row.decisive.keyword != nullptr) made.info.static_kwargs = {row.decisive.keyword};
  made.info.needs_pytree = made.op.takes_tensor_lists();
  made.compute = row.compute;
  made.gradient = row.gradient;
  made.flags = row.flags;
  made.position_argument = std::holds_alternative<MaskedLookup>(row.compute) ? 0 : -1;
  made.shape_argument = row.shape_argument;
  made.stride_argument = row.stride_argument;
  made.why = row.why;
  made.source = row.name.source;
  return made;
}

}  // namespace

OpDescriptor aten_descriptor(std::string_view schema) {
  OpDescriptor op = parse_literal_schema(schema);
  for (const auto& [base, argument, what] : kUnsaid) {
    if (op.base != base) continue;
    SchemaArgument& meant = op.arguments[*op.find_argument(argument)];
    if (what == Unsaid::kWritten) meant.alias = {"state!", true};
    if (what == Unsaid::kMayBeNone) meant.type.is_optional = true;
  }
  return op;
}

void add_variant(OpRegistry& registry, const OpRow& base, OpDescriptor op, ShardingRule rule) {
  OpRow variant;
  static_cast<OpColumns&>(variant) = base;
  variant.base = &base;
  variant.op = std::move(op);
  if (variant.op.is_out_variant()) {
    variant.shape_argument = variant.stride_argument = -1;  // shapes are those of the out tensors
  }
  variant.rule = rule;
  if (std::holds_alternative<PartsFn>(base.compute)) variant.compute = PartsFn{through_base};
  registry.add(std::move(variant));
}

const OpRow& add_row(OpRegistry& registry, const Row& row) {
  const OpRow& base = registry.add(base_row(row));
  add_variants(registry, base);
  return base;
}

void add_rows(OpRegistry& registry, std::span<const Row> rows, std::uint32_t flags) {
  for (Row row : rows) {
    row.flags |= flags;
    add_row(registry, row);
  }
}

}  // namespace shardlab
