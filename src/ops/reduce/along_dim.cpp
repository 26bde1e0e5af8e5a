// Ops along one dim, which must be whole on every rank; all others may be cut.
#include <algorithm>
#include <limits>

#include "kernels/promotion.h"
#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Integers are allowed only where there are no elements.
OutputMetas meta_softmax(const MetaArgs& args) {
  TensorMeta meta = *args.tensor(0);
  wrap_dim(args[1].to_int(), meta.shape.size());
  const bool none = std::ranges::find(meta.shape, 0) != meta.shape.end();
  if (!none) require_float(args.op().name(), meta.dtype);
  if (args[2].to_bool()) meta.dtype = DType::kF32;
  meta.stride = preserved_strides(meta);
  return {{meta}};
}

OutputMetas meta_softmax_backward(const MetaArgs& args) {
  const TensorMeta &gradient = *args.tensor(0), &output = *args.tensor(1);
  wrap_dim(args[2].to_int(), output.shape.size());
  check_gradient_shape(args, gradient.shape, output.shape, "the output");
  check_argument_dtype(args, 0, 1);
  return {elementwise_meta(args, tensor_operands(args), args[3].dtype())};
}

OutputMetas meta_cumsum(const MetaArgs& args) {
  TensorMeta meta = *args.tensor(0);
  wrap_dim(args[1].to_int(), meta.shape.size());
  const Argument& dtype = argument_or_none(args, "dtype");
  if (dtype.is_dtype() && dtype.dtype() == DType::kBool) {
    fail(Fix{"leave dtype out: truth values are counted in i64"},
         "{}: dtype is bool; running sums and products are numbers", args.op().name());
  }
  meta.dtype = dtype.is_dtype()          ? dtype.dtype()
               : is_integral(meta.dtype) ? DType::kI64
                                         : meta.dtype;
  meta.stride = preserved_strides(meta);
  return {{meta}};
}

/// One of each dtype: floats, or f32.
OutputMetas meta_logcumsumexp(const MetaArgs& args) {
  TensorMeta meta = *args.tensor(0);
  wrap_dim(args[1].to_int(), meta.shape.size());
  meta.dtype = require_float(args.op().name(), meta.dtype);
  meta.stride = preserved_strides(meta);
  return {{meta}};
}

/// _safe_softmax(self, dim, dtype)
OutputMetas meta_safe_softmax(const MetaArgs& args) {
  TensorMeta meta = *args.tensor(0);
  wrap_dim(args[1].to_int(), meta.shape.size());
  meta.dtype = dtype_or(args[2], meta.dtype);
  meta.stride = preserved_strides(meta);
  return {{meta}};
}

OutputMetas meta_topk(const MetaArgs& args) {
  const TensorMeta& input = *args.tensor(0);
  const std::int64_t dim = wrap_dim(args[2].to_int(), input.shape.size());
  const std::int64_t k = args[1].to_int();
  Dims shape = input.shape;
  const std::int64_t length = shape.empty() ? 1 : shape[static_cast<std::size_t>(dim)];
  if (k < 0 || k > length) {
    fail(Fix{fmt::format("k={} takes all of them", length)},
         "{}: k is {}; it must be from 0 to {}, the size of the dim", args.op().name(), k, length);
  }
  if (!shape.empty()) shape[static_cast<std::size_t>(dim)] = k;
  return {{contiguous_meta(shape, input.dtype)}, {contiguous_meta(shape, DType::kI64)}};
}

OutputMetas meta_sort(const MetaArgs& args) {
  TensorMeta values = *args.tensor(0);
  wrap_dim(argument_or_none(args, "dim").to_int(), values.shape.size());
  values.stride = preserved_strides(values);
  TensorMeta indices = values;
  indices.dtype = DType::kI64;
  return {{values}, {indices}};
}

std::vector<RuleRow> others_rule(const RuleContext& context) {
  const std::int64_t dim = wrap_dim(context.schema.arg("dim").to_int(), context.tensors[0]->ndim());
  return shard_all_dims_but(context, dim, context.tensors.size());
}

std::vector<RuleRow> cumsum_rule(const RuleContext& context) {
  std::vector<RuleRow> rows = others_rule(context);
  append_passing(rows, "sa", 1, 1);
  return rows;
}

/// Rows of nothing but -inf, which have no sum to be divided by, become 0.
Results safe_softmax(Calls& calls, const OpRow&, const Arguments& args) {
  Expression x(calls, args[0].tensor());
  x = x.to(dtype_or(args[2], x.value().dtype()));
  const Expression shares(calls, calls.one("aten::_softmax", {x, args[1], false}));
  const Expression none(calls, calls.one("aten::all.dim", {x.eq(-kInfinity), args[1], true}));
  return {shares.filled(none, 0)};
}

template <FixedText backward>
Gradients grad_along_dim(const GradContext& context) {
  return {context.calls.one(
      backward, {context.grads[0], output(context), context.inputs[1], input(context, 0).dtype()})};
}

/// The gradient of values whose places are the second result; the dim is the argument at `dim`.
template <std::size_t dim>
Gradients grad_chosen(const GradContext& context) {
  return chosen(context, context.inputs[dim], context.grads[0], context.outputs[1].tensor());
}

// A running value along a dim, from the end.
Expression from_the_end(const Expression& x, std::string_view op, const Dims& dim) {
  return x.with("aten::flip", dim).with(op, dim[0]).with("aten::flip", dim);
}

// Sums of all later terms, each times the product before it: without zeros; y / x is the rest.
Gradients grad_cumprod(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& x = input(context, 0);
  const Dims dims{context.inputs[1].to_int()};
  const bool one = x.ndim() == 0 || x.shape()[index_of(wrap_dim(dims[0], x.ndim()))] == 1;
  if (one) return {cast_like(calls, context.grads[0], x)};
  const auto backwards = [&](const Expression& values) {
    return from_the_end(values, "aten::cumsum", dims);
  };
  const auto products = [&](const Expression& values) {
    return Expression(calls, calls.one("aten::cumprod", {values, dims[0]}));
  };
  // Up to the first zero products are quotients; at it, those of the others until the second.
  const Expression value = in(context, 0), gradient = flowing(context), zero = value.eq(0);
  const Expression zeros(calls, calls.one("aten::cumsum", {zero, dims[0]}));
  const Expression rest = products(value.filled(zero, 1));
  const DType dtype = x.dtype();
  const Expression before = backwards((gradient * rest).times(zeros.eq(0).to(dtype)));
  const Expression at = backwards((gradient * rest).times(zeros.eq(1).to(dtype)));
  const Expression first = zero && zeros.eq(1);
  const Expression quotient = before / value.filled(zero, 1);
  const Expression none = quotient.of("aten::zeros_like");
  return {cast_like(calls, first.choose(at, zero.choose(none, quotient)), x)};
}

// Each later sum takes the share exp(x - y) of its gradient from x; as logarithms, which real
// gradients have by signs.
Gradients grad_logcumsumexp(const GradContext& context) {
  const DTensor& x = input(context, 0);
  if (x.ndim() == 0) return {context.grads[0]};
  const Dims dims{context.inputs[1].to_int()};
  const Scalar least(lowest_number(real_dtype(x.dtype())).to_double() / 4);
  const Expression gradient = flowing(context), y = out(context), value = in(context, 0);
  // Elements of the other sign get the least logarithm that still has a slope.
  const bool complex = is_complex(gradient.value().dtype());
  const auto part = [&](const Expression& size) {
    const Expression none = complex ? size.eq(0) : size.le(0);
    const Expression logs = (size.filled(none, 1).of("aten::log") - y).filled(none, least);
    return (from_the_end(logs, "aten::logcumsumexp", dims) + value).of("aten::exp");
  };
  const Expression sum = part(gradient);
  return {complex ? sum.value() : sum.minus(part(-gradient)).value()};
}

// The ways back of both, (grad_output, output, dim, input_dtype).

Expression sum_along(const GradContext& context, const Expression& x) {
  const Dims dims{context.inputs[2].to_int()};
  return {context.calls, context.calls.one("aten::sum.dim_IntList", {x, dims, true})};
}

Gradients grad_log_softmax_backward(const GradContext& context) {
  const Expression shares = in(context, 1).of("aten::exp"), g = flowing(context);
  return each(
      context, [&] { return g - sum_along(context, g * shares); },
      [&] { return (-(g * shares)).times(sum_along(context, in(context, 0))); });
}

Gradients grad_softmax_backward(const GradContext& context) {
  const Expression shares = in(context, 1), g = flowing(context), given = in(context, 0);
  const Expression along = sum_along(context, g * shares);
  return each(
      context, [&] { return (g - along) * shares; },
      [&] {
        const Expression through = g * sum_along(context, given * shares);
        return (g * given - through).minus(given * along);
      });
}

// An element is part of all later sums, so it gets the sum of their gradients.
Gradients grad_cumsum(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& x = input(context, 0);
  if (x.ndim() == 0) return {cast_like(calls, context.grads[0], x)};
  const Dims dims{context.inputs[1].to_int()};
  return {cast_like(calls, from_the_end(flowing(context), "aten::cumsum", dims), x)};
}

constexpr const char* kScan = "what comes before decides";
constexpr const char* kOrder = "order and positions count within the whole dim";

// Sorted by name.
// clang-format off
constexpr Row kAlongDimRows[] = {
    {"_log_softmax"_op, meta_softmax, others_rule, KernelId::kLogSoftmax,
     {grad_along_dim<"_log_softmax_backward_data">, "result"}, "normalised by a sum over the dim"},
    {"_log_softmax_backward_data"_op, meta_softmax_backward, others_rule,
     KernelId::kLogSoftmaxBackward, {grad_log_softmax_backward, "grad_output output"},
     "sums the gradient over the dim"},
    {"_safe_softmax"_op, meta_safe_softmax, others_rule, safe_softmax,
     {grad_along_dim<"_softmax_backward_data">, "result"}, "normalised by a sum over the dim"},
    {"_softmax"_op, meta_softmax, others_rule, KernelId::kSoftmax,
     {grad_along_dim<"_softmax_backward_data">, "result"}, "normalised by a sum over the dim"},
    {"_softmax_backward_data"_op, meta_softmax_backward, others_rule, KernelId::kSoftmaxBackward,
     {grad_softmax_backward, "grad_output output"}, "sums the gradient over the dim"},
    composite("argsort"_op, result_of<"sort", 1>, "sort"),
    composite("argsort.stable"_op, result_of<"sort.stable", 1>, "sort.stable"),
    {"cummax"_op, meta_sort, others_rule, KernelId::kCummax, {grad_chosen<1>, "self result1"},
     kScan},
    {"cummin"_op, meta_sort, others_rule, KernelId::kCummin, {grad_chosen<1>, "self result1"},
     kScan},
    {"cumprod"_op, meta_cumsum, others_rule, KernelId::kCumprod,
     {holomorphic<grad_cumprod>, "self result"}, kScan},
    {"cumsum"_op, meta_cumsum, cumsum_rule, KernelId::kCumsum, {grad_cumsum, ""},
     "linear; sums run over the whole dim", kSumsLinearly},
    {"logcumsumexp"_op, meta_logcumsumexp, others_rule, KernelId::kLogcumsumexp,
     {holomorphic<grad_logcumsumexp>, "self result"}, kScan},
    {"sort"_op, meta_sort, others_rule, KernelId::kSort, {grad_chosen<1>, "result1"}, kOrder},
    {"sort.stable"_op, meta_sort, others_rule, KernelId::kSortStable, {grad_chosen<2>, "result1"},
     kOrder},
    {"topk"_op, meta_topk, others_rule, KernelId::kTopk, {grad_chosen<2>, "result1"}, kOrder},
};
// clang-format on

}  // namespace

void register_along_dim(OpRegistry& registry) { add_rows(registry, kAlongDimRows, kAllowUneven); }

}  // namespace shardlab
