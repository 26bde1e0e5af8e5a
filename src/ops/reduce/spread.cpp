// Variances and deviations: the spreads of pieces do not add up to that of the whole, so that
// reduced dims are not cut.
#include <limits>

#include "ops/family.h"
#include "ops/reduce/reduction_parts.h"

namespace shardlab {
namespace {

using namespace grad;

/// The spread of complex numbers is real.
OutputMetas meta_spread(const MetaArgs& args) {
  const DType dtype = require_float(args.op().name(), args.tensor(0)->dtype);
  return {{reduced_meta(args, real_dtype(dtype))}};
}
OutputMetas meta_spread_and_mean(const MetaArgs& args) {
  return {meta_spread(args)[0], {reduced_meta(args, args.tensor(0)->dtype)}};
}
Gradients grad_var(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& x = input(context, 0);
  const Dims dims = reduced_dims(context.inputs[1], x.ndim());
  const double correction = context.inputs[2].is_none() ? 1.0 : context.inputs[2].to_double();
  double count = 1;
  for (const std::int64_t dim : dims) {
    count *= static_cast<double>(x.shape()[static_cast<std::size_t>(dim)]);
  }
  const DTensor gradient = unreduce(calls, context.grads[0], dims, context.inputs[3].to_bool());
  const DTensor mean = calls.one("aten::mean.dim", {x, dims, true});
  const DTensor distance = calls.one("aten::sub.Tensor", {x, mean});
  const double freedom = count - correction;
  if (context.inputs[1].is_none() && freedom <= 0) {
    const Expression flow(calls, gradient), met(calls, calls.one("aten::eq.Tensor", {x, mean}));
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const DTensor slope = calls.one("aten::full_like", {distance, kInfinity});
    return {flow.times(Expression(calls, slope).filled(met, std::nan("")))};
  }
  const DTensor scaled = calls.one("aten::mul.Scalar", {gradient, 2.0 / freedom});
  return {calls.one("aten::mul.Tensor", {distance, scaled})};
}

// Half the variance's over the deviation; where nothing deviates, 0.
Gradients grad_deviation(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& result = context.outputs[0].tensor();
  const DTensor doubled = calls.one("aten::mul.Scalar", {result, 2});
  const DTensor of_variance = calls.one("aten::div.Tensor", {context.grads[0], doubled});
  const DTensor none = calls.one("aten::eq.Scalar", {result, 0});
  const DTensor gradient = calls.one("aten::masked_fill.Scalar", {of_variance, none, 0});
  return grad_var({calls, context.inputs, context.outputs, {&gradient, 1}, context.needs});
}

// Each result contributes its part, if it has a gradient.
template <Gradients (*of_spread)(const GradContext&)>
Gradients grad_of_both(const GradContext& context) {
  Calls& calls = context.calls;
  Gradients gradients = context.grads[0].defined() ? of_spread(context) : Gradients(1);
  if (!context.grads[1].defined()) return gradients;
  const GradContext of_mean{
      calls, context.inputs, context.outputs, {&context.grads[1], 1}, context.needs};
  const Dims dims = reduced_dims(context.inputs[1], input(context, 0).ndim());
  const DTensor mean =
      mean_gradient(of_mean, sum_gradient(of_mean, dims, context.inputs[3].to_bool()), dims);
  gradients[0] =
      gradients[0].defined() ? calls.one("aten::add.Tensor", {gradients[0], mean}) : mean;
  return gradients;
}

constexpr const char* kSpread = "spreads of pieces do not add up";

// Sorted by name.
// clang-format off
constexpr Row kSpreadRows[] = {
    {"std.correction"_op, meta_spread, kept_dims_rule<NoDims::kAll>, KernelId::kStd,
     {grad_deviation, "self result"}, kSpread, kAllowUneven},
    {"std_mean.correction"_op, meta_spread_and_mean, kept_dims_rule<NoDims::kAll>,
     KernelId::kStdMean, {grad_of_both<grad_deviation>, "self result0"}, kSpread, kAllowUneven},
    {"var.correction"_op, meta_spread, kept_dims_rule<NoDims::kAll>, KernelId::kVar,
     {grad_var, "self"}, kSpread, kAllowUneven},
    {"var_mean.correction"_op, meta_spread_and_mean, kept_dims_rule<NoDims::kAll>,
     KernelId::kVarMean, {grad_of_both<grad_var>, "self"}, kSpread, kAllowUneven},
};
// clang-format on

}  // namespace

void register_spread(OpRegistry& registry) { add_rows(registry, kSpreadRows); }

}  // namespace shardlab
