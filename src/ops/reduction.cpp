// Reductions: a cut dim that stays is cut in the result; one that is reduced leaves a partial,
// where partial results combine to the whole.
#include <algorithm>

#include "kernels/kernel_id.h"
#include "ops/derive.h"
#include "ops/meta.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace shardlab {
namespace {

/// Sums and products of bool and integers accumulate in i64.
DType accumulated(const MetaArgs& args) {
  const Argument& wanted = argument_or_none(args, "dtype");
  if (wanted.is_dtype()) return wanted.dtype();
  const DType dtype = args.tensor(0)->dtype;
  return is_integral(dtype) ? DType::kI64 : dtype;
}

std::vector<OutputMeta> reduction_meta(const MetaArgs& args, DType dtype) {
  const TensorMeta& input = *args.tensor(0);
  const Dims dims = reduced_dims(args.op(), argument_or_none(args, "dim"), input.shape.size());
  const Argument& keep = argument_or_none(args, "keepdim");
  const bool keep_dims = keep.is_scalar() && keep.to_bool();
  return {{contiguous_meta(reduced_shape(input.shape, dims, keep_dims), dtype)}};
}

std::vector<OutputMeta> meta_sum(const MetaArgs& args) {
  return reduction_meta(args, accumulated(args));
}

/// What the arguments of a reduction say about dims.
struct Reduced {
  Dims dims;
  bool keep_dims = false;
  bool contains(std::int64_t dim) const {
    return std::find(dims.begin(), dims.end(), dim) != dims.end();
  }
  /// Where dim `dim` of the input, which is not reduced, goes.
  std::int64_t output_dim(std::int64_t dim) const {
    if (keep_dims) return dim;
    return dim - std::count_if(dims.begin(), dims.end(), [&](std::int64_t d) { return d < dim; });
  }
};

Reduced reduced_of(const RuleContext& context) {
  const OpDescriptor& op = context.schema.row->op;
  const std::size_t ndim = context.tensors[0]->ndim();
  const std::optional<std::size_t> dim = op.find_argument("dim");
  const std::optional<std::size_t> keep = op.find_argument("keepdim");
  Reduced reduced;
  reduced.dims = reduced_dims(op, dim ? context.schema.args[*dim] : Argument(), ndim);
  reduced.keep_dims =
      keep && context.schema.args[*keep].is_scalar() && context.schema.args[*keep].to_bool();
  return reduced;
}

enum class ReducedShards { kBecomePartial, kRefused };

std::vector<RuleRow> reduction_rows(const RuleContext& context, const RulePlacement& partial,
                                    ReducedShards shards, std::size_t outputs) {
  const Reduced reduced = reduced_of(context);
  const auto ndim = static_cast<std::int64_t>(context.tensors[0]->ndim());
  std::vector<RuleRow> rows;
  for (std::int64_t dim = 0; dim < ndim; ++dim) {
    RulePlacement output = partial;
    if (!reduced.contains(dim)) {
      output = RulePlacement::any(reduced.output_dim(dim));
    } else if (shards == ReducedShards::kRefused) {
      continue;
    }
    RuleRow row;
    row.outputs.assign(outputs, output);
    row.inputs.push_back(RulePlacement::any(dim));
    rows.push_back(std::move(row));
  }
  return rows;
}

template <ReduceOp kOp>
std::vector<RuleRow> linear_rule(const RuleContext& context) {
  const RulePlacement partial = RulePlacement::of(Placement::partial(kOp));
  std::vector<RuleRow> rows = reduction_rows(context, partial, ReducedShards::kBecomePartial, 1);
  rows.push_back(uniform_row(partial, 1, 1));
  return rows;
}

struct ReductionRow {
  const char* schema;
  MetaFn meta;
  DimRuleFn rule;
  KernelId kernel;
  Variants variants;
  const char* why;
  std::uint32_t flags = kAllowUneven;
};

// clang-format off
constexpr ReductionRow kRows[] = {
    {"sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", meta_sum, linear_rule<ReduceOp::kSum>,
     KernelId::kSum, {false, "out"}, "a sum of sums"},
    {"sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor", meta_sum, linear_rule<ReduceOp::kSum>, KernelId::kSum,
     {false, "IntList_out"}, "a sum of sums"},
};
// clang-format on

}  // namespace

void register_reduction(OpRegistry& registry) {
  for (const ReductionRow& entry : kRows) {
    OpRow row;
    row.op = parse_op_schema(entry.schema);
    row.meta = entry.meta;
    row.rule = entry.rule;
    row.kernel = entry.kernel;
    row.flags = entry.flags;
    row.why = entry.why;
    add_with_variants(registry, std::move(row), entry.variants);
  }
}

}  // namespace shardlab
