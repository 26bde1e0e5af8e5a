// Copies and constants: one tensor in, one of the same shape out. Moving values passes every
// partial; a constant for a partial input is a replica, or it would be reduced as if it were a
// term.
#include <utility>

#include "mesh/type_string.h"
#include "ops/family.h"
#include "schema/aten_schemas.h"

namespace shardlab {
namespace {

using namespace grad;

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
      fail(Fix{"leave memory_format out"}, "{}: {} is for tensors of {} dims, not {}",
           args.op().name(), format, ndim, meta.shape.size());
    }
    meta.stride = channels_last_strides(meta.shape);
  } else {
    meta.stride = preserved_strides(meta);
  }
  return {meta};
}

OutputMetas meta_copy(const MetaArgs& args) {
  const DType own = args.tensor(0)->dtype;
  return {formatted(args, dtype_or(argument_or_none(args, "dtype"), own))};
}

/// The target: the source only has to fit.
OutputMetas meta_target(const MetaArgs& args) {
  const TensorMeta& target = *args.tensor(0);
  if (args.op().arguments.size() > 1 && args.tensor(1) != nullptr) {
    const TensorMeta* const both[] = {&target, args.tensor(1)};
    if (!(broadcast_shapes(args.op(), both) == target.shape)) {
      fail(Fix{"give the source the target's sizes, or 1 where it repeats"},
           "{}: the source {} does not broadcast to the target {}", args.op().name(),
           type_string(*args.tensor(1)), type_string(target));
    }
  }
  return {{target}};
}

std::vector<RuleRow> copy_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = shard_all_dims_but(context, -1, 1);
  append_passing(rows, kPassing, 1, 1);
  return rows;
}

/// A reduction passes a cast when it may follow it.
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

/// A number written into every term of a sum would count once per rank.
const char* fill_filter(const RuleContext& context, std::span<const Placements> inputs) {
  const Argument& value = context.schema.args[1];
  if (value.is_scalar() && value.to_double() == 0) return nullptr;
  for (const Placement& placement : inputs[0]) {
    if (placement.is_partial(ReduceOp::kSum)) return "the number would be counted once per rank";
  }
  return nullptr;
}

Gradients grad_copy(const GradContext& context) {
  Gradients gradients(2);
  if (context.needs(0)) gradients[0] = zeros_like(context.calls, context.grads[0]);
  if (context.needs(1)) gradients[1] = sum_to(context.calls, context.grads[0], input(context, 1));
  return gradients;
}

/// fill_.Tensor(self, value): a tensor of one element
Results fill_with(Calls& calls, const Arguments& args) {
  if (args[1].tensor().ndim() != 0) {
    fail(Fix{"give a tensor without dims, or use copy_"},
         "fill_: the value has {} dims; it must have none", args[1].tensor().ndim());
  }
  return calls("copy_", {args[0], args[1]});
}

/// copy(self, src, non_blocking): src in the shape and dtype of self
Results copied(Calls& calls, const Arguments& args) {
  const DTensor &self = args[0].tensor(), &src = args[1].tensor();
  const DTensor wide = calls.one("expand", {src, self.shape()});
  return {calls.one("_to_copy", {wide, self.dtype()})};
}

// Sorted by name.
// clang-format off
constexpr Row kCopyRows[] = {
    {"_to_copy"_op, meta_copy, cast_rule, KernelId::kConvert, {grad_pass, ""},
     "a cast to integers rounds every term"},
    {"clone"_op, meta_copy, copy_rule, KernelId::kConvert, {grad_pass, ""}, "the same values"},
    composite("copy"_op, copied, "expand and _to_copy"),
    {"copy_"_op, meta_target, PointwiseRule{"sss aaa xxx nnn"}, KernelId::kCopy, {grad_copy, ""},
     "moves values"},
    {"empty_like"_op, meta_copy, copy_rule, KernelId::kZeros, {}, "values are written later",
     kNotDifferentiable},
    composite("fill.Scalar"_op, by_op<"full_like", 0, 1>, {grad_zeros, ""}, "full_like"),
    {"fill_.Scalar"_op, meta_target, copy_rule, KernelId::kFill, {grad_zeros, ""},
     "every rank writes its own piece", 0, {}, fill_filter},
    composite("fill_.Tensor"_op, fill_with, "copy_"),
    {"full_like"_op, meta_copy, rule_like, KernelId::kFill, {},
     "constants do not depend on the input", kNotDifferentiable},
    {"ones_like"_op, meta_copy, rule_like, KernelId::kOnes, {},
     "constants do not depend on the input", kNotDifferentiable},
    {"zero_"_op, meta_target, copy_rule, KernelId::kZeros, {grad_zeros, ""},
     "zero is zero in every partial"},
    {"zeros_like"_op, meta_copy, rule_like, KernelId::kZeros, {},
     "constants do not depend on the input", kNotDifferentiable},
};
// clang-format on

}  // namespace

// Likenesses depend on no values, so they have no gradient.
void register_copy(OpRegistry& registry) {
  add_rows(registry, kCopyRows, kAllowUneven | kExact);
  // Rows that write their first argument have an out= form, too.
  constexpr std::pair<const char*, const char*> kForms[] = {
      {"copy_", "copy.out"}, {"fill_.Scalar", "fill.Scalar_out"}, {"zero_", "zero.out"}};
  for (const auto& [name, out] : kForms) {
    const OpRow& row = registry.at(name);
    add_variant(registry, row, aten_descriptor(aten_schema(out)), row.rule);
  }
}

}  // namespace shardlab
