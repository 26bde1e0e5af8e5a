// Reductions: a cut dim that stays is cut in the result; one that is reduced leaves a partial,
// where partial results combine to the whole.
#include <algorithm>
#include <cmath>

#include "ops/family.h"
#include "ops/reduce/reduction_parts.h"

namespace shardlab {

namespace {

using namespace grad;

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

void require_elements(const MetaArgs& args, const Dims& dims) {
  for (const std::int64_t dim : dims) {
    const Dims& shape = args.tensor(0)->shape;
    if (!shape.empty() && shape[static_cast<std::size_t>(dim)] == 0) {
      fail(Fix{"leave empty tensors out, or reduce another dim"},
           "{}: dim {} has no element to choose from", args.op().name(), dim);
    }
  }
}

OutputMetas meta_sum(const MetaArgs& args) { return {{reduced_meta(args, accumulated(args))}}; }
OutputMetas meta_mean(const MetaArgs& args) {
  return {{reduced_meta(args, require_float(args.op().name(), wanted_dtype(args)))}};
}
OutputMetas meta_extremum(const MetaArgs& args) {
  const TensorMeta& input = *args.tensor(0);
  require_elements(args,
                   reduced_dims(args.op(), argument_or_none(args, "dim"), input.shape.size()));
  return {{reduced_meta(args, input.dtype)}};
}
template <NoDims kNoDims>
OutputMetas meta_truth(const MetaArgs& args) {
  const DType dtype = args.tensor(0)->dtype;
  return {{reduced_meta(args, dtype == DType::kU8 ? dtype : DType::kBool, kNoDims)}};
}
OutputMetas meta_index(const MetaArgs& args) { return {{reduced_meta(args, DType::kI64)}}; }
OutputMetas meta_extremum_with_index(const MetaArgs& args) {
  return {meta_extremum(args)[0], {reduced_meta(args, DType::kI64)}};
}
/// Powers of integers are integers.
OutputMetas meta_powsum(const MetaArgs& args) {
  return {{reduced_meta(args, real_dtype(accumulated(args)))}};
}
/// Reduces all elements; there may be none.
OutputMetas meta_overall(const MetaArgs& args) {
  return {{contiguous_meta({}, args.tensor(0)->dtype)}};
}
OutputMetas meta_kthvalue(const MetaArgs& args) {
  const Dims& shape = args.tensor(0)->shape;
  const std::int64_t dim = wrap_dim(args[2].to_int(), shape.size());
  const std::int64_t length = shape.empty() ? 1 : shape[static_cast<std::size_t>(dim)];
  if (args[1].to_int() < 1 || args[1].to_int() > length) {
    fail(Fix{fmt::format("k={} is the largest element", length)},
         "{}: k is {}; it must be from 1 to {}, the size of the dim", args.op().name(),
         args[1].text(), length);
  }
  return meta_extremum_with_index(args);
}
OutputMetas meta_norm(const MetaArgs& args) {
  return {{reduced_meta(args, real_dtype(require_float(args.op().name(), wanted_dtype(args))))}};
}

// Rules

/// A reduction of reductions: cut dims leave a partial, and the same partial passes.
template <ReduceOp kOp>
std::vector<RuleRow> linear_rule(const RuleContext& context) {
  const Placement partial = Placement::partial(kOp);
  std::vector<RuleRow> rows = reduction_rows(context, partial);
  rows.push_back(uniform_row(RulePlacement::of(partial), 1, 1));
  return rows;
}

std::vector<RuleRow> norm_rule(const RuleContext& context) {
  const bool named = context.schema.row->op.find_argument("ord").has_value();
  const double ord = context.schema.arg(named ? "ord" : "p").to_double();
  if (std::isinf(ord)) {
    // A pending maximum of negative numbers has a smaller magnitude than its terms.
    const Placement partial = Placement::partial(ord > 0 ? ReduceOp::kMax : ReduceOp::kMin);
    const Placements& given = context.tensors[0]->placements();
    if (std::find(given.begin(), given.end(), partial) != given.end()) {
      return reduction_rows(context, partial);
    }
    return ord > 0 ? linear_rule<ReduceOp::kMax>(context) : linear_rule<ReduceOp::kMin>(context);
  }
  return reduction_rows(
      context, ord == 0 ? Placement::partial(ReduceOp::kSum) : Placement::norm_partial(ord));
}

/// Questions about the whole value cannot be answered by its terms.
const char* whole_filter(const RuleContext& context, std::span<const Placements> inputs) {
  const auto has_terms = [](const Placements& placements) {
    return std::ranges::any_of(placements,
                               [](const Placement& p) { return p.is_partial(ReduceOp::kSum); });
  };
  const bool passes = has_terms(context.tensors[0]->placements()) && has_terms(inputs[0]);
  return passes ? "terms say nothing about the elements of the whole" : nullptr;
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

/// The index handler gathers what it needs by itself, so a partial or a cut reduced dim is required
/// whole and never cut elsewhere. The out= variants have no handler: their inputs move as usual.
const char* index_filter(const RuleContext& context, std::span<const Placements> inputs) {
  if (context.schema.row->out_variant()) return nullptr;
  const Reduced reduced = reduced_of(context);
  const Placements& given = context.tensors[0]->placements();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool gathered =
        given[i].is_partial() || (given[i].is_shard() && reduced.contains(given[i].dim));
    if (gathered && !inputs[0][i].is_replicate()) return "what is gathered is not cut elsewhere";
  }
  return nullptr;
}

/// An empty list of dims reduces all of them, and keeps them with size 1, as recorded.
bool names_no_dims(const Argument& dims) { return dims.is_ints() && dims.ints().empty(); }

/// log(sum(exp(x))) around the maximum, of complex numbers that of their real parts, so that
/// nothing overflows; an infinite one counts as 0. As in the reference nothing is computed where no
/// dims are named but all are to be removed.
Results logsumexp_locally(Calls& calls, const OpRow& row, const Arguments& args) {
  DTensor x = args[0].tensor();
  const bool kept = args[2].to_bool();
  if (names_no_dims(args[1]) && !kept && x.ndim() > 0) {
    fail(Fix{"name the dims: torch.logsumexp(x, dim=(0, 1))"},
         "logsumexp: the list of dims is empty");
  }
  if (is_integral(x.dtype())) x = calls.one("_to_copy", {x, DType::kF32});
  const Dims dims = dims_of(row.op, args[1], x.ndim(), NoDims::kAll);
  std::int64_t reduced = 1;
  for (const std::int64_t dim : dims) {
    reduced *= x.ndim() == 0 ? 1 : x.shape()[static_cast<std::size_t>(dim)];
  }
  DTensor most;
  const bool around = reduced > 0;
  if (around) {
    const DTensor real = is_complex(x.dtype()) ? calls.one("real", {x}) : x;
    most = calls.one("amax", {real, dims, true});
    most = calls.one("masked_fill.Scalar", {most, calls.one("isinf", {most}), 0});
    x = calls.one("sub.Tensor", {x, most});
  }
  DTensor result =
      calls.one("log", {calls.one("sum.dim_IntList", {calls.one("exp", {x}), dims, true})});
  if (around) result = calls.one("add.Tensor", {result, most});
  if (!kept) result = calls.one("squeeze.dims", {result, dims});
  return {Argument(std::move(result))};
}

/// nansum(self, dim, keepdim, *, dtype)
Results nansum_locally(Calls& calls, const OpRow&, const Arguments& args) {
  Expression x(calls, args[0].tensor());
  if (!is_integral(x.value().dtype())) x = x.filled(x.of("aten::isnan"), 0);
  return calls("sum.dim_IntList", {x, args[1], args[2], args[3]});
}

/// norm.Scalar(self, p)
Results norm_locally(Calls& calls, const OpRow&, const Arguments& args) {
  return calls("linalg_vector_norm", {args[0], args[1]});
}

/// linalg__powsum(self, ord, dim, keepdim, *, dtype)
Results powsum_locally(Calls& calls, const OpRow&, const Arguments& args) {
  Expression x(calls, args[0].tensor());
  if (args[4].is_dtype()) x = x.to(args[4].dtype());
  const Expression terms = x.of("aten::abs").with("aten::pow.Tensor_Scalar", args[1]);
  return calls("sum.dim_IntList", {terms, args[2], args[3]});
}

/// Integers become f32.
OutputMetas meta_logsumexp(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  if (names_no_dims(args[1])) {
    return {{contiguous_meta(Dims(self.shape.size(), 1), float_dtype(self.dtype))}};
  }
  return {{reduced_meta(args, float_dtype(self.dtype))}};
}

Dims all_dims(const DTensor& x) { return reduced_dims(Argument(), x.ndim()); }

// Equal maxima share the gradient.
Gradients grad_amax_amin(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& x = input(context, 0);
  const bool all = context.inputs.size() == 1;  // max and min have no dim
  const Dims dims = all ? all_dims(x) : reduced_dims(context.inputs[1], x.ndim());
  const bool kept = !all && context.inputs[2].to_bool();
  const DTensor extreme = unreduce(calls, context.outputs[0].tensor(), dims, kept);
  const DTensor gradient = unreduce(calls, context.grads[0], dims, kept);
  DTensor equal = calls.one("aten::eq.Tensor", {x, extreme});
  if (all) {  // an extreme of NaN is chosen where there is NaN
    const Expression none(calls, calls.one("aten::isnan", {extreme}));
    equal =
        (Expression(calls, equal) || (none && Expression(calls, calls.one("aten::isnan", {x}))));
  }
  const DTensor chosen = calls.one("aten::_to_copy", {equal, x.dtype()});
  const DTensor count = calls.one("aten::sum.dim_IntList", {chosen, dims, true});
  const DTensor share = calls.one("aten::div.Tensor", {gradient, count});
  return {calls.one("aten::mul.Tensor", {chosen, share})};
}

/// At each place the product of those before it along `dim`; 1 at the first.
Expression products_before(const Expression& x, std::int64_t dim) {
  Dims pads(2 * (x.value().ndim() - static_cast<std::size_t>(dim)), 0);
  pads.end()[-2] = 1;
  pads.end()[-1] = -1;
  Calls& calls = x.calls();
  const DTensor shifted = calls.one("aten::constant_pad_nd", {x, pads, 1});
  return {calls, calls.one("aten::cumprod", {shifted, dim})};
}

/// At each place the product of all others over `dims`: never a quotient, so that 0 and infinite or
/// undefined numbers count where they are among the others.
Expression products_of_others(const Expression& x, const Dims& dims) {
  Calls& calls = x.calls();
  Expression others(calls, calls.one("aten::ones_like", {x})), rest = x;
  for (const std::int64_t dim : dims) {
    const auto turned = [&](const Expression& value) -> Expression {
      return {calls, calls.one("aten::flip", {value, Dims{dim}})};
    };
    const Expression before = products_before(rest, dim);
    const Expression after = turned(products_before(turned(rest), dim));
    others = others * before * after;
    rest = Expression(calls, calls.one("aten::prod.dim_int", {rest, dim, true}));
  }
  return others;
}

// The reference's: without a zero in the whole input the quotient, which is NaN at an infinity;
// else the product of all others, in every slice. With two zeros the gradient of the product of all
// elements is 0, whatever the incoming one is.
Gradients grad_prod(const GradContext& context) {
  Calls& calls = context.calls;
  const Expression x = in(context, 0).to(context.grads[0].dtype());
  const bool all = context.inputs.size() == 2;  // prod has no dim
  const bool kept = !all && context.inputs[2].to_bool();
  const std::size_t ndim = x.value().ndim();
  const Dims dims = all ? all_dims(x) : reduced_dims(context.inputs[1], ndim);
  const auto beside = [&](const DTensor& reduced_value) -> Expression {
    const DTensor whole = kept ? gathered(calls, reduced_value, dims) : reduced_value;
    return {calls, unreduce(calls, whole, dims, kept)};
  };
  const Expression flow = beside(context.grads[0]);
  if (ndim == 0) return {cast_like(calls, flow, input(context, 0))};
  if (product(x.value().shape()) == 0) return {zeros_like(calls, input(context, 0))};
  const Expression zero = x.eq(0), divisor = x.filled(zero, 1);
  const Expression quotient = beside(output(context)) / divisor;
  const Expression zeros(calls, calls.one("aten::sum", {zero}));
  const Expression others = products_of_others(x, dims);
  Expression gradient = flow * zeros.eq(0).choose(quotient, others);
  if (all) gradient = gradient.filled(zeros.gt(1), 0);
  return {cast_like(calls, gradient, input(context, 0))};
}

// The slope of a norm by the order, 0 where the norm is: as the reference has it.
DTensor norm_slope(Calls& calls, const DTensor& x, const DTensor& norm, double order,
                   const Dims& dims) {
  const DTensor size = calls.one("aten::abs", {x});
  const DTensor sign = calls.one("aten::sgn", {x});
  const auto zero_where = [&](const DTensor& value, const DTensor& other) {
    const DTensor none = calls.one("aten::eq.Scalar", {other, 0});
    return calls.one("aten::masked_fill.Scalar", {value, none, 0});
  };
  const auto power = [&](const DTensor& value, double exponent) {
    return calls.one("aten::pow.Tensor_Scalar", {value, exponent});
  };
  if (order == 0) return calls.one("aten::zeros_like", {x});
  if (order == 1) return sign;
  if (order == 2) return zero_where(calls.one("aten::div.Tensor", {x, norm}), norm);
  if (std::isinf(order)) {
    const DTensor equal = calls.one("aten::eq.Tensor", {size, norm});
    const DTensor met = calls.one("aten::logical_or", {equal, calls.one("aten::isnan", {size})});
    const DTensor count = calls.one("aten::sum.dim_IntList", {met, dims, true});
    return calls.one("aten::mul.Tensor", {sign, calls.one("aten::div.Tensor", {met, count})});
  }
  const DTensor shares = power(calls.one("aten::div.Tensor", {size, norm}), order - 1);
  return calls.one("aten::mul.Tensor", {sign, zero_where(shares, order < 1 ? x : norm)});
}

Gradients grad_norm(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& x = input(context, 0);
  const Dims dims = reduced_dims(context.inputs[2], x.ndim());
  const bool kept = context.inputs[3].to_bool();
  const DTensor& result = context.outputs[0].tensor();
  const DTensor norm = kept ? gathered(calls, result, dims) : unreduce(calls, result, dims, kept);
  const DTensor slope = norm_slope(calls, x, norm, context.inputs[1].to_double(), dims);
  const DTensor gradient =
      calls.one("aten::mul.Tensor", {sum_gradient(context, dims, kept), slope});
  return {cast_like(calls, gradient, x)};
}

Gradients grad_logsumexp(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& x = input(context, 0);
  const Dims dims = reduced_dims(context.inputs[1], x.ndim());
  const bool kept = context.inputs[2].to_bool() || names_no_dims(context.inputs[1]);
  const DTensor& result = context.outputs[0].tensor();
  const DTensor whole = kept ? gathered(calls, result, dims) : unreduce(calls, result, dims, kept);
  const DTensor share = calls.one("aten::exp", {calls.one("aten::sub.Tensor", {x, whole})});
  return {calls.one("aten::mul.Tensor", {sum_gradient(context, dims, kept), share})};
}

Gradients grad_extremum_along(const GradContext& context) {
  const Argument& dim = context.inputs[1];
  const DTensor& index = context.outputs[1].tensor();
  if (context.inputs[2].to_bool() || input(context, 0).ndim() == 0) {
    return chosen(context, dim, context.grads[0], index);
  }
  const Dims& shape = input(context, 0).shape();
  const std::int64_t at = wrap_dim(dim.to_int(), shape.size());
  const DTensor flow = context.calls.one("aten::unsqueeze", {context.grads[0], at});
  return chosen(context, dim, flow, context.calls.one("aten::unsqueeze", {index, at}));
}

/// kthvalue(self, k, dim, keepdim)
Gradients grad_kthvalue(const GradContext& context) {
  const Arguments along{context.inputs[0], context.inputs[2], context.inputs[3]};
  return grad_extremum_along({context.calls, along, context.outputs, context.grads, context.needs});
}

Gradients grad_nansum(const GradContext& context) {
  const Dims dims = reduced_dims(context.inputs[1], input(context, 0).ndim());
  const Expression whole(context.calls, sum_gradient(context, dims, context.inputs[2].to_bool()));
  return {whole * !in(context, 0).of("aten::isnan")};
}

/// norm.Scalar(self, p): of all elements.
Gradients grad_norm_all(const GradContext& context) {
  const Arguments all{context.inputs[0], context.inputs[1], Argument(), Argument(false)};
  return grad_norm({context.calls, all, context.outputs, context.grads, context.needs});
}

/// sum(|x|^ord): ord |x|^(ord - 1) sgn(x)
Gradients grad_powsum(const GradContext& context) {
  const double ord = context.inputs[1].to_double();
  const Dims dims = reduced_dims(context.inputs[2], input(context, 0).ndim());
  const Expression x = in(context, 0);
  const Expression whole(context.calls, sum_gradient(context, dims, context.inputs[3].to_bool()));
  const Expression power = x.of("aten::abs").with("aten::pow.Tensor_Scalar", ord - 1);
  const Expression size = whole * power.filled(x.eq(0), ord == 1 ? 1.0 : 0.0);
  return {size * x.of("aten::sgn") * ord};
}

Gradients grad_sum_all(const GradContext& context) {
  const DTensor& x = input(context, 0);
  const DTensor whole = context.calls.one("aten::expand", {context.grads[0], x.shape()});
  return {cast_like(context.calls, whole, x)};
}

Gradients grad_mean_all(const GradContext& context) {
  return {mean_gradient(context, grad_sum_all(context)[0], all_dims(input(context, 0)))};
}

Gradients grad_mean_dims(const GradContext& context) {
  const Dims dims = reduced_dims(context.inputs[1], input(context, 0).ndim());
  return {mean_gradient(context, sum_gradient(context, dims, context.inputs[2].to_bool()), dims)};
}

Gradients grad_sum_dims(const GradContext& context) {
  const Dims dims = reduced_dims(context.inputs[1], input(context, 0).ndim());
  return {sum_gradient(context, dims, context.inputs[2].to_bool())};
}

constexpr const char* kTruth = "the reference combines no partial truth values";
constexpr const char* kIndices = "positions count within the whole dim";
constexpr const char* kCandidates = "where the dim is cut, ranks compare their candidates";

// The out= variants of amax, amin, mean.dim, any.dim and prod.dim_int fail for every input in the
// reference and are left out.
// Sorted by name.
// clang-format off
constexpr Row kReductionRows[] = {
    {"all"_op, meta_truth<NoDims::kAll>, kept_dims_rule<NoDims::kAll>, KernelId::kAll, {}, kTruth,
     kAllowUneven},
    {"all.dim"_op, meta_truth<NoDims::kAll>, kept_dims_rule<NoDims::kAll>, KernelId::kAll, {},
     kTruth, kAllowUneven},
    {"all.dims"_op, meta_truth<NoDims::kNone>, kept_dims_rule<NoDims::kNone>, KernelId::kAll, {},
     kTruth, kAllowUneven},
    {"amax"_op, meta_extremum, linear_rule<ReduceOp::kMax>, KernelId::kAmax,
     {grad_amax_amin, "self result"}, "a maximum of maxima", kAllowUneven},
    {"amin"_op, meta_extremum, linear_rule<ReduceOp::kMin>, KernelId::kAmin,
     {grad_amax_amin, "self result"}, "a minimum of minima", kAllowUneven},
    {"any"_op, meta_truth<NoDims::kAll>, kept_dims_rule<NoDims::kAll>, KernelId::kAny, {}, kTruth,
     kAllowUneven},
    {"any.dim"_op, meta_truth<NoDims::kAll>, kept_dims_rule<NoDims::kAll>, KernelId::kAny, {},
     kTruth, kAllowUneven},
    {"any.dims"_op, meta_truth<NoDims::kNone>, kept_dims_rule<NoDims::kNone>, KernelId::kAny, {},
     kTruth, kAllowUneven},
    {"argmax"_op, meta_index, kept_dims_rule<NoDims::kAll>, KernelId::kArgmax, {}, kCandidates,
     kAllowUneven | kExact, {}, index_filter},
    {"argmin"_op, meta_index, kept_dims_rule<NoDims::kAll>, KernelId::kArgmin, {}, kCandidates,
     kAllowUneven | kExact, {}, index_filter},
    {"kthvalue"_op, meta_kthvalue, kept_dims_rule<NoDims::kAll>, KernelId::kKthvalue,
     {grad_kthvalue, "result1"}, kIndices, kAllowUneven},
    {"linalg__powsum"_op, meta_powsum, linear_rule<ReduceOp::kSum>, powsum_locally,
     {grad_powsum, "self"}, "a sum of sums of powers", kAllowUneven, {}, whole_filter},
    {"linalg_vector_norm"_op, meta_norm, norm_rule, KernelId::kVectorNorm,
     {grad_norm, "self result"}, "a norm of norms", kAllowUneven | kSumsOneSign},
    {"logsumexp"_op, meta_logsumexp, kept_dims_rule<NoDims::kAll>, logsumexp_locally,
     {holomorphic<grad_logsumexp>, "self result"}, "logarithms of sums do not add up", kAllowUneven,
     {1}},
    {"max"_op, meta_extremum, linear_rule<ReduceOp::kMax>, KernelId::kMax,
     {grad_amax_amin, "self result"}, "a maximum of maxima", kAllowUneven},
    {"max.dim"_op, meta_extremum_with_index, kept_dims_rule<NoDims::kAll>, KernelId::kMaxDim,
     {grad_extremum_along, "result1"}, kIndices, kAllowUneven},
    {"mean"_op, meta_mean, linear_rule<ReduceOp::kAvg>, KernelId::kMean, {grad_mean_all, ""},
     "a mean of means of equally many", kSumsLinearly, {}, mean_filter},
    {"mean.dim"_op, meta_mean, linear_rule<ReduceOp::kAvg>, KernelId::kMean, {grad_mean_dims, ""},
     "a mean of means of equally many", kSumsLinearly, {}, mean_filter},
    {"median"_op, meta_overall, kept_dims_rule<NoDims::kAll>, KernelId::kMedian,
     {grad_amax_amin, "self result"}, kIndices, kAllowUneven},
    {"median.dim"_op, meta_extremum_with_index, kept_dims_rule<NoDims::kAll>, KernelId::kMedianDim,
     {grad_extremum_along, "result1"}, kIndices, kAllowUneven},
    {"min"_op, meta_extremum, linear_rule<ReduceOp::kMin>, KernelId::kMin,
     {grad_amax_amin, "self result"}, "a minimum of minima", kAllowUneven},
    {"min.dim"_op, meta_extremum_with_index, kept_dims_rule<NoDims::kAll>, KernelId::kMinDim,
     {grad_extremum_along, "result1"}, kIndices, kAllowUneven},
    {"mode"_op, meta_extremum_with_index, kept_dims_rule<NoDims::kAll>, KernelId::kMode,
     {grad_extremum_along, "result1"}, kIndices, kAllowUneven},
    {"nanmedian"_op, meta_overall, kept_dims_rule<NoDims::kAll>, KernelId::kNanMedian,
     {grad_amax_amin, "self result"}, kIndices, kAllowUneven},
    {"nanmedian.dim"_op, meta_extremum_with_index, kept_dims_rule<NoDims::kAll>,
     KernelId::kNanMedianDim, {grad_extremum_along, "result1"}, kIndices, kAllowUneven},
    {"nansum"_op, meta_sum, linear_rule<ReduceOp::kSum>, nansum_locally, {grad_nansum, "self"},
     "a sum of sums", kAllowUneven, {}, whole_filter},
    {"norm.Scalar"_op, meta_norm, norm_rule, norm_locally, {grad_norm_all, "self result"},
     "a norm of norms", kAllowUneven},
    {"prod"_op, meta_sum, linear_rule<ReduceOp::kProduct>, KernelId::kProd,
     {holomorphic<grad_prod>, "self result"}, "a product of products", kAllowUneven | kSumsOneSign},
    {"prod.dim_int"_op, meta_sum, linear_rule<ReduceOp::kProduct>, KernelId::kProd,
     {holomorphic<grad_prod>, "self result"}, "a product of products", kAllowUneven | kSumsOneSign},
    {"sum"_op, meta_sum, linear_rule<ReduceOp::kSum>, KernelId::kSum, {grad_sum_all, ""},
     "a sum of sums", kAllowUneven | kSumsLinearly},
    {"sum.dim_IntList"_op, meta_sum, linear_rule<ReduceOp::kSum>, KernelId::kSum,
     {grad_sum_dims, ""}, "a sum of sums", kAllowUneven | kSumsLinearly},
};
// clang-format on

}  // namespace

void register_reduction(OpRegistry& registry) { add_rows(registry, kReductionRows); }

}  // namespace shardlab
