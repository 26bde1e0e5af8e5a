// A cut dim that stays is cut in the result, at its place among those that stay.
#include "ops/reduce/reduction_parts.h"

#include "ops/core/arguments.h"
#include "schema/op_row.h"

namespace shardlab {

Dims dims_of(const OpDescriptor& op, const Argument& dims, std::size_t ndim, NoDims no_dims) {
  if (no_dims == NoDims::kNone && dims.is_ints() && dims.ints().empty()) return {};
  return reduced_dims(op, dims, ndim);
}

Reduced reduced_of(const RuleContext& context, NoDims no_dims) {
  const OpDescriptor& op = context.schema.row->op;
  const std::size_t ndim = context.tensors[0]->ndim();
  const std::optional<std::size_t> dim = op.find_argument("dim");
  const std::optional<std::size_t> keep = op.find_argument("keepdim");
  Reduced reduced;
  reduced.dims = dims_of(op, dim ? context.schema.args[*dim] : Argument(), ndim, no_dims);
  reduced.keep_dims =
      keep && context.schema.args[*keep].is_scalar() && context.schema.args[*keep].to_bool();
  return reduced;
}

TensorMeta reduced_meta(const MetaArgs& args, DType dtype, NoDims no_dims) {
  const TensorMeta& input = *args.tensor(0);
  const Dims dims = dims_of(args.op(), argument_or_none(args, "dim"), input.shape.size(), no_dims);
  const Argument& keep = argument_or_none(args, "keepdim");
  const bool keep_dims = keep.is_scalar() && keep.to_bool();
  return contiguous_meta(reduced_shape(input.shape, dims, keep_dims), dtype);
}

std::vector<RuleRow> reduction_rows(const RuleContext& context, std::optional<Placement> partial,
                                    NoDims no_dims) {
  const Reduced reduced = reduced_of(context, no_dims);
  const auto ndim = static_cast<std::int64_t>(context.tensors[0]->ndim());
  std::vector<RuleRow> rows;
  for (std::int64_t dim = 0; dim < ndim; ++dim) {
    const bool stays = !reduced.contains(dim);
    if (!stays && !partial) continue;
    RuleRow row;
    row.outputs.assign(
        context.schema.row->op.returns.size(),
        stays ? RulePlacement::any(reduced.output_dim(dim)) : RulePlacement::of(*partial));
    row.inputs.push_back(RulePlacement::any(dim));
    rows.push_back(std::move(row));
  }
  return rows;
}

namespace grad {

Dims reduced_dims(const Argument& dims, std::size_t ndim) {
  Dims result;
  if (ndim == 0) return result;
  if (dims.is_scalar()) {
    result.push_back(dims.to_int());
  } else if (dims.is_ints()) {
    result = dims.ints();
  }
  if (result.empty()) {
    for (std::size_t i = 0; i < ndim; ++i) result.push_back(static_cast<std::int64_t>(i));
  }
  for (std::int64_t& dim : result) dim = wrap_dim(dim, ndim);
  std::sort(result.begin(), result.end());
  return result;
}

DTensor unreduce(Calls& calls, DTensor value, const Dims& dims, bool kept) {
  if (kept) return value;
  for (const std::int64_t dim : dims) value = calls.one("aten::unsqueeze", {value, dim});
  return value;
}

DTensor sum_gradient(const GradContext& context, const Dims& dims, bool kept) {
  const DTensor& x = input(context, 0);
  const DTensor gradient = kept ? gathered(context.calls, context.grads[0], dims)
                                : unreduce(context.calls, context.grads[0], dims, kept);
  const DTensor whole = context.calls.one("aten::expand", {gradient, x.shape()});
  return cast_like(context.calls, whole, x);
}

DTensor mean_gradient(const GradContext& context, const DTensor& whole, const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    count *= input(context, 0).shape()[static_cast<std::size_t>(dim)];
  }
  return context.calls.one("aten::div.Scalar", {whole, count});
}

}  // namespace grad

}  // namespace shardlab
