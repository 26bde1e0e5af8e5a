// Copies and constants: one tensor in, one of the same shape out. Moving values passes every
// partial; a constant beside a partial input is a replica, or it would be reduced as if it were a
// term.
#include "kernels/kernel_id.h"
#include "ops/arguments.h"
#include "ops/derive.h"
#include "ops/gradients.h"
#include "ops/meta.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace shardlab {
namespace {

constexpr const char* kPassing = "sanx";  // in the reference's order

/// Dim 1 innermost, then the others as in memory.
Dims channels_last_strides(const Dims& shape) {
  Dims strides(shape.size());
  std::int64_t stride = 1;
  const auto place = [&](std::size_t dim) {
    strides[dim] = stride;
    stride *= std::max<std::int64_t>(shape[dim], 1);
  };
  place(1);
  for (std::size_t dim = shape.size(); dim-- > 2;) place(dim);
  place(0);
  return strides;
}

/// No memory format, and preserve_format, keep dense strides.
OutputMeta formatted(const MetaArgs& args, DType dtype) {
  TensorMeta meta = *args.tensor(0);
  meta.dtype = dtype;
  const Argument& given = argument_or_none(args, "memory_format");
  const std::string format = given.is_string() ? given.string() : "preserve_format";
  if (format == "contiguous_format") {
    meta.stride = contiguous_strides(meta.shape);
  } else if (format.starts_with("channels_last")) {
    const std::size_t ndim = format == "channels_last" ? 4 : 5;
    if (meta.shape.size() != ndim) {
      fail(ErrorKind::kValue, "{}: {} is for tensors of {} dims", args.op().name(), format, ndim);
    }
    meta.stride = channels_last_strides(meta.shape);
  } else {
    meta.stride = preserved_strides(meta);
  }
  return {meta};
}

std::vector<OutputMeta> meta_copy(const MetaArgs& args) {
  const DType own = args.tensor(0)->dtype;
  return {formatted(args, dtype_or(argument_or_none(args, "dtype"), own))};
}

/// The target: the source only has to fit.
std::vector<OutputMeta> meta_target(const MetaArgs& args) {
  const TensorMeta& target = *args.tensor(0);
  if (args.op().arguments.size() > 1 && args.tensor(1) != nullptr) {
    const TensorMeta* const both[] = {&target, args.tensor(1)};
    if (!(broadcast_shapes(args.op(), both) == target.shape)) {
      fail(ErrorKind::kValue, "{}: the source does not fit into the target", args.op().name());
    }
  }
  return {{target}};
}

std::vector<RuleRow> copy_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = shard_all_dims_but(context, -1, 1);
  append_passing(rows, kPassing, 1, 1);
  return rows;
}

/// A reduction passes a cast when it may come after it.
bool commutes(char partial, DType from, DType to) {
  if (from == to) return true;
  if (to == DType::kBool) return false;
  if (partial == 'x' || partial == 'n') return true;
  return !(is_floating(from) && !is_floating(to));
}

std::vector<RuleRow> cast_rule(const RuleContext& context) {
  const DType from = context.tensors[0]->dtype();
  const DType to = dtype_or(context.schema.arg("dtype"), from);
  std::vector<RuleRow> rows = shard_all_dims_but(context, -1, 1);
  for (const char* partial = kPassing; *partial != '\0'; ++partial) {
    const char kind[] = {*partial, '\0'};
    if (commutes(*partial, from, to)) append_passing(rows, kind, 1, 1);
  }
  return rows;
}

std::vector<RuleRow> constant_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = shard_all_dims_but(context, -1, 1);
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    rows.push_back(
        {{RulePlacement::of(Placement::replicate())}, {RulePlacement::of(Placement::partial(op))}});
  }
  return rows;
}

/// A number written into every term of a sum would count once per rank.
const char* fill_filter(const RuleContext& context, std::span<const Placements> inputs) {
  const Argument& value = context.schema.args[1];
  if (value.is_scalar() && value.to_double() == 0) return nullptr;
  for (const Placement& placement : inputs[0]) {
    if (placement.is_partial(ReduceOp::kSum)) return "the number would be counted once per rank";
  }
  return nullptr;
}

struct CopyRow {
  const char* schema;
  MetaFn meta;
  ShardingRule rule;
  KernelId kernel;
  Variants variants;
  const char* why;
  MeshFilterFn filter = nullptr;
};

const CopyRow kRows[] = {
    // sorted by name
    {"_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
     meta_copy,
     cast_rule,
     KernelId::kConvert,
     {},
     "a cast to integers rounds every term"},
    {"clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
     meta_copy,
     copy_rule,
     KernelId::kConvert,
     {},
     "the same values"},
    {"copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
     meta_target,
     PointwiseRule{"sss aaa xxx nnn"},
     KernelId::kCopy,
     {},
     "moves values"},
    {"empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     meta_copy,
     copy_rule,
     KernelId::kZeros,
     {},
     "values are written later"},
    {"fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)",
     meta_target,
     copy_rule,
     KernelId::kFill,
     {},
     "every rank writes its own piece",
     fill_filter},
    {"full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, "
     "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     meta_copy,
     constant_rule,
     KernelId::kFill,
     {},
     "constants do not depend on the input"},
    {"ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     meta_copy,
     constant_rule,
     KernelId::kOnes,
     {},
     "constants do not depend on the input"},
    {"zero_(Tensor(a!) self) -> Tensor(a!)",
     meta_target,
     copy_rule,
     KernelId::kZeros,
     {},
     "zero is zero in every partial"},
    {"zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
     "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     meta_copy,
     constant_rule,
     KernelId::kZeros,
     {},
     "constants do not depend on the input"},
};

}  // namespace

void register_copy(OpRegistry& registry) {
  for (const CopyRow& entry : kRows) {
    OpRow row;
    row.op = parse_op_schema(entry.schema);
    row.meta = entry.meta;
    row.rule = entry.rule;
    row.kernel = entry.kernel;
    row.flags = kAllowUneven | kExact;
    // Likenesses depend on no values.
    if (!grad::has_gradient(row.op.name())) row.flags |= kNotDifferentiable;
    row.why = entry.why;
    row.filter = entry.filter;
    add_with_variants(registry, std::move(row), entry.variants);
  }
}

}  // namespace shardlab
