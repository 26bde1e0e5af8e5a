// Reductions: a cut dim that stays is cut in the result; one that is reduced leaves a partial,
// where partial results combine to the whole.
#include <algorithm>
#include <cmath>

#include "kernels/kernel_id.h"
#include "ops/derive.h"
#include "ops/meta.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace shardlab {
namespace {

// Shape and dtype

/// The dtype argument, or the input's own.
DType wanted_dtype(const MetaArgs& args) {
  const Argument& wanted = argument_or_none(args, "dtype");
  return wanted.is_dtype() ? wanted.dtype() : args.tensor(0)->dtype;
}

/// Sums and products of bool and integers accumulate in i64.
DType accumulated(const MetaArgs& args) {
  const DType dtype = wanted_dtype(args);
  const bool chosen = argument_or_none(args, "dtype").is_dtype();
  return is_integral(dtype) && !chosen ? DType::kI64 : dtype;
}

DType require_float(const MetaArgs& args, DType dtype) {
  if (is_integral(dtype)) {
    fail(ErrorKind::kValue, "{}: takes floats, not {}", args.op().name(), to_string(dtype));
  }
  return dtype;
}

void require_elements(const MetaArgs& args, const Dims& dims) {
  for (const std::int64_t dim : dims) {
    const Dims& shape = args.tensor(0)->shape;
    if (!shape.empty() && shape[static_cast<std::size_t>(dim)] == 0) {
      fail(ErrorKind::kValue, "{}: dim {} has no element to choose from", args.op().name(), dim);
    }
  }
}

/// What an explicit empty list of dims means.
enum class NoDims : std::uint8_t { kAll, kNone };

Dims dims_of(const OpDescriptor& op, const Argument& dims, std::size_t ndim, NoDims no_dims) {
  if (no_dims == NoDims::kNone && dims.is_ints() && dims.ints().empty()) return {};
  return reduced_dims(op, dims, ndim);
}

TensorMeta reduced_meta(const MetaArgs& args, DType dtype, NoDims no_dims = NoDims::kAll) {
  const TensorMeta& input = *args.tensor(0);
  const Dims dims =
      dims_of(args.op(), argument_or_none(args, "dim"), input.shape.size(), no_dims);
  const Argument& keep = argument_or_none(args, "keepdim");
  const bool keep_dims = keep.is_scalar() && keep.to_bool();
  return contiguous_meta(reduced_shape(input.shape, dims, keep_dims), dtype);
}

std::vector<OutputMeta> meta_sum(const MetaArgs& args) {
  return {{reduced_meta(args, accumulated(args))}};
}
std::vector<OutputMeta> meta_mean(const MetaArgs& args) {
  return {{reduced_meta(args, require_float(args, wanted_dtype(args)))}};
}
std::vector<OutputMeta> meta_extremum(const MetaArgs& args) {
  const TensorMeta& input = *args.tensor(0);
  require_elements(args, reduced_dims(args.op(), argument_or_none(args, "dim"),
                                      input.shape.size()));
  return {{reduced_meta(args, input.dtype)}};
}
template <NoDims kNoDims>
std::vector<OutputMeta> meta_truth(const MetaArgs& args) {
  const DType dtype = args.tensor(0)->dtype;
  return {{reduced_meta(args, dtype == DType::kU8 ? dtype : DType::kBool, kNoDims)}};
}
std::vector<OutputMeta> meta_index(const MetaArgs& args) {
  return {{reduced_meta(args, DType::kI64)}};
}
std::vector<OutputMeta> meta_extremum_with_index(const MetaArgs& args) {
  return {meta_extremum(args)[0], {reduced_meta(args, DType::kI64)}};
}
/// The spread of complex numbers is real.
std::vector<OutputMeta> meta_spread(const MetaArgs& args) {
  const DType dtype = require_float(args, args.tensor(0)->dtype);
  return {{reduced_meta(args, real_dtype(dtype))}};
}
std::vector<OutputMeta> meta_spread_and_mean(const MetaArgs& args) {
  return {meta_spread(args)[0], {reduced_meta(args, args.tensor(0)->dtype)}};
}
std::vector<OutputMeta> meta_norm(const MetaArgs& args) {
  return {{reduced_meta(args, real_dtype(require_float(args, wanted_dtype(args))))}};
}

// Rules

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

Reduced reduced_of(const RuleContext& context, NoDims no_dims = NoDims::kAll) {
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

std::size_t output_count(const RuleContext& context) {
  return context.schema.row->op.returns.size();
}

/// Rows that cut dims which stay; with `partial`, also rows that cut dims which are reduced.
std::vector<RuleRow> reduction_rows(const RuleContext& context, std::optional<Placement> partial,
                                    NoDims no_dims = NoDims::kAll) {
  const Reduced reduced = reduced_of(context, no_dims);
  const auto ndim = static_cast<std::int64_t>(context.tensors[0]->ndim());
  std::vector<RuleRow> rows;
  for (std::int64_t dim = 0; dim < ndim; ++dim) {
    const bool stays = !reduced.contains(dim);
    if (!stays && !partial) continue;
    RuleRow row;
    row.outputs.assign(output_count(context), stays ? RulePlacement::any(reduced.output_dim(dim))
                                                    : RulePlacement::of(*partial));
    row.inputs.push_back(RulePlacement::any(dim));
    rows.push_back(std::move(row));
  }
  return rows;
}

/// A reduction of reductions: cut dims leave a partial, and the same partial passes.
template <ReduceOp kOp>
std::vector<RuleRow> linear_rule(const RuleContext& context) {
  const Placement partial = Placement::partial(kOp);
  std::vector<RuleRow> rows = reduction_rows(context, partial);
  rows.push_back(uniform_row(RulePlacement::of(partial), 1, 1));
  return rows;
}

template <NoDims kNoDims>
std::vector<RuleRow> kept_dims_rule(const RuleContext& context) {
  return reduction_rows(context, std::nullopt, kNoDims);
}

std::vector<RuleRow> norm_rule(const RuleContext& context) {
  const double ord = context.schema.arg("ord").to_double();
  if (std::isinf(ord)) {
    // A pending maximum of negative numbers has a smaller magnitude than its terms.
    const Placement partial = Placement::partial(ord > 0 ? ReduceOp::kMax : ReduceOp::kMin);
    const Placements& given = context.tensors[0]->placements();
    if (std::find(given.begin(), given.end(), partial) != given.end()) {
      return reduction_rows(context, partial);
    }
    return ord > 0 ? linear_rule<ReduceOp::kMax>(context) : linear_rule<ReduceOp::kMin>(context);
  }
  return reduction_rows(context, ord == 0 ? Placement::partial(ReduceOp::kSum)
                                          : Placement::norm_partial(ord));
}

/// Means of uneven pieces do not average to the mean.
const char* mean_filter(const RuleContext& context, std::span<const Placements> inputs) {
  const Reduced reduced = reduced_of(context);
  const Dims& shape = context.tensors[0]->shape();
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (!reduced.contains(static_cast<std::int64_t>(dim))) continue;
    std::int64_t pieces = 1;
    for (std::size_t i = 0; i < inputs[0].size(); ++i) {
      const Placement& placement = inputs[0][i];
      if (!placement.is_shard(static_cast<std::int64_t>(dim))) continue;
      pieces *= context.schema.layout->size(i);
      if (placement.is_strided_shard()) pieces *= placement.split_factor;
    }
    if (shape[dim] % pieces != 0) return "pieces of different sizes have means of different weight";
  }
  return nullptr;
}

/// The index handler gathers what it needs by itself, so a partial or a cut reduced dim is wanted
/// whole and never cut elsewhere.
const char* index_filter(const RuleContext& context, std::span<const Placements> inputs) {
  const Reduced reduced = reduced_of(context);
  const Placements& given = context.tensors[0]->placements();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool gathered =
        given[i].is_partial() || (given[i].is_shard() && reduced.contains(given[i].dim));
    if (gathered && !inputs[0][i].is_replicate()) return "what is gathered is not cut elsewhere";
  }
  return nullptr;
}

struct ReductionRow {
  const char* schema;
  MetaFn meta;
  DimRuleFn rule;
  KernelId kernel;
  const char* out;
  const char* why;
  MeshFilterFn filter = nullptr;
  std::uint32_t flags = kAllowUneven;
};

constexpr const char* kTruth = "the reference combines no partial truth values";
constexpr const char* kIndices = "positions count within the whole dim";
constexpr const char* kCandidates = "where the dim is cut, ranks compare their candidates";
constexpr const char* kSpread = "spreads of pieces do not add up";

// The out= variants of amax, amin, mean.dim, any.dim and prod.dim_int fail for every input in the
// reference and are left out.
constexpr ReductionRow kRows[] = {  // sorted by name
    {"all(Tensor self) -> Tensor",
     meta_truth<NoDims::kAll>, kept_dims_rule<NoDims::kAll>, KernelId::kAll, "all_out", kTruth},
    {"all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
     meta_truth<NoDims::kAll>, kept_dims_rule<NoDims::kAll>, KernelId::kAll, "out", kTruth},
    {"amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
     meta_extremum, linear_rule<ReduceOp::kMax>, KernelId::kAmax, nullptr, "a maximum of maxima"},
    {"amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
     meta_extremum, linear_rule<ReduceOp::kMin>, KernelId::kAmin, nullptr, "a minimum of minima"},
    {"any(Tensor self) -> Tensor",
     meta_truth<NoDims::kAll>, kept_dims_rule<NoDims::kAll>, KernelId::kAny, "all_out", kTruth},
    {"any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
     meta_truth<NoDims::kAll>, kept_dims_rule<NoDims::kAll>, KernelId::kAny, nullptr, kTruth},
    {"any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
     meta_truth<NoDims::kNone>, kept_dims_rule<NoDims::kNone>, KernelId::kAny, "dims_out", kTruth},
    {"argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
     meta_index, kept_dims_rule<NoDims::kAll>, KernelId::kArgmax, "out", kCandidates,
     index_filter},
    {"argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
     meta_index, kept_dims_rule<NoDims::kAll>, KernelId::kArgmin, "out", kCandidates,
     index_filter},
    {"linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
     "ScalarType? dtype=None) -> Tensor",
     meta_norm, norm_rule, KernelId::kVectorNorm, "out", "a norm of norms"},
    {"max(Tensor self) -> Tensor",
     meta_extremum, linear_rule<ReduceOp::kMax>, KernelId::kMax, "unary_out",
     "a maximum of maxima"},
    {"max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     meta_extremum_with_index, kept_dims_rule<NoDims::kAll>, KernelId::kMaxDim,
     "max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) "
     "max_values) -> (Tensor(a!) values, Tensor(b!) indices)",
     kIndices},
    {"mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
     meta_mean, linear_rule<ReduceOp::kAvg>, KernelId::kMean, "dtype_out",
     "a mean of means of equally many", mean_filter, 0},
    {"mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     meta_mean, linear_rule<ReduceOp::kAvg>, KernelId::kMean, nullptr,
     "a mean of means of equally many", mean_filter, 0},
    {"min(Tensor self) -> Tensor",
     meta_extremum, linear_rule<ReduceOp::kMin>, KernelId::kMin, "unary_out",
     "a minimum of minima"},
    {"min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     meta_extremum_with_index, kept_dims_rule<NoDims::kAll>, KernelId::kMinDim,
     "min.dim_min(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) min, Tensor(b!) "
     "min_indices) -> (Tensor(a!) values, Tensor(b!) indices)",
     kIndices},
    {"prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
     meta_sum, linear_rule<ReduceOp::kProduct>, KernelId::kProd, "out", "a product of products"},
    {"prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
     meta_sum, linear_rule<ReduceOp::kProduct>, KernelId::kProd, nullptr,
     "a product of products"},
    {"std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
     "keepdim=False) -> Tensor",
     meta_spread, kept_dims_rule<NoDims::kAll>, KernelId::kStd, "correction_out", kSpread},
    {"sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
     meta_sum, linear_rule<ReduceOp::kSum>, KernelId::kSum, "out", "a sum of sums"},
    {"sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> "
     "Tensor",
     meta_sum, linear_rule<ReduceOp::kSum>, KernelId::kSum, "IntList_out", "a sum of sums"},
    {"var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
     "keepdim=False) -> Tensor",
     meta_spread, kept_dims_rule<NoDims::kAll>, KernelId::kVar, "correction_out", kSpread},
    {"var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
     "keepdim=False) -> (Tensor, Tensor)",
     meta_spread_and_mean, kept_dims_rule<NoDims::kAll>, KernelId::kVarMean, "correction_out",
     kSpread},
};

}  // namespace

void register_reduction(OpRegistry& registry) {
  for (const ReductionRow& entry : kRows) {
    OpRow row;
    row.op = parse_op_schema(entry.schema);
    row.meta = entry.meta;
    row.rule = entry.rule;
    row.filter = entry.filter;
    row.kernel = entry.kernel;
    row.flags = entry.flags;
    row.why = entry.why;
    if (entry.filter == index_filter) row.handler = HandlerId::kExtremumIndex;
    const OpRow& base = add_with_variants(registry, std::move(row), kNoVariants);
    if (entry.out == nullptr) continue;
    OpRow out = out_variant(base, entry.out);
    if (entry.filter == index_filter) {  // no handler: inputs move as usual
      out.filter = nullptr;
      out.handler = HandlerId::kNone;
      out.why = kIndices;
    }
    registry.add(std::move(out));
  }
}

}  // namespace shardlab
