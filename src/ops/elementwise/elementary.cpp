// Functions of one tensor, element by element: roundings, elementary functions, activations and
// their gradients.
#include <cmath>
#include <numbers>

#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

/// bool has no negative.
OutputMetas meta_negated(const MetaArgs& args) {
  if (args.tensor(0)->dtype == DType::kBool) {
    fail(ErrorKind::kUnsupported, Fix{"logical_not(x) inverts a mask"},
         "{}: the operand is bool; truth values have no negative", args.op().name());
  }
  return meta_tensors(args);
}

/// c64 -> f32: the magnitude.
OutputMetas meta_real(const MetaArgs& args) {
  OutputMetas outputs = meta_tensors(args);
  outputs[0].meta.dtype = real_dtype(outputs[0].meta.dtype);
  return outputs;
}

/// Truth values count as numbers.
OutputMetas meta_square(const MetaArgs& args) {
  OutputMetas outputs = meta_tensors(args);
  if (outputs[0].meta.dtype == DType::kBool) outputs[0].meta.dtype = DType::kI64;
  return outputs;
}

Expression slope_abs(const GradContext& context) {
  return in(context, 0).of(is_complex(input(context, 0).dtype()) ? "aten::sgn" : "aten::sign");
}

// The slope of asin.
Expression over_cosine(const GradContext& context) {
  const Expression x = in(context, 0);
  return flowing(context) * (-(x * x) + 1.0).of("aten::rsqrt");
}

Gradients grad_acos(const GradContext& context) { return {-over_cosine(context)}; }

Gradients grad_asin(const GradContext& context) { return {over_cosine(context)}; }

Gradients grad_asinh(const GradContext& context) {
  const Expression x = in(context, 0);
  return {flowing(context) * (x * x + 1.0).of("aten::rsqrt")};
}

Gradients grad_atan(const GradContext& context) {
  const Expression x = in(context, 0);
  return {flowing(context) / (x * x + 1.0)};
}

Expression slope_cos(const GradContext& context) { return -in(context, 0).of("aten::sin"); }

Expression slope_cosh(const GradContext& context) { return in(context, 0).of("aten::sinh"); }

Gradients grad_erf(const GradContext& context) {
  const Expression x = in(context, 0), bell = (-(x * x)).of("aten::exp");
  return {flowing(context) * (bell * (2 / std::sqrt(std::numbers::pi)))};
}

Gradients grad_erfc(const GradContext& context) {
  return {negate(context.calls, grad_erf(context)[0])};
}

Expression slope_exp(const GradContext& context) { return out(context); }

Gradients grad_exp2(const GradContext& context) {
  return {flowing(context) * out(context) * std::numbers::ln2};
}

Expression slope_expm1(const GradContext& context) {
  return out(context).with("aten::add.Scalar", Scalar(1));
}

Gradients grad_leaky_relu(const GradContext& context) {
  return {context.calls.one("aten::leaky_relu_backward", {context.grads[0], input(context, 0),
                                                          context.inputs[1], Argument(false)})};
}

Gradients grad_log(const GradContext& context) {
  return {divide(context.calls, context.grads[0], input(context, 0))};
}

Gradients grad_log10(const GradContext& context) {
  return {flowing(context) / (in(context, 0) * std::numbers::ln10)};
}

Gradients grad_log1p(const GradContext& context) {
  const DTensor shifted = context.calls.one("aten::add.Scalar", {input(context, 0), Scalar(1)});
  return {divide(context.calls, context.grads[0], shifted)};
}

Gradients grad_log2(const GradContext& context) {
  return {flowing(context) / (in(context, 0) * std::numbers::ln2)};
}

Gradients grad_neg(const GradContext& context) { return {negate(context.calls, context.grads[0])}; }

Gradients grad_reciprocal(const GradContext& context) {
  const DTensor squared = multiply(context.calls, output(context), output(context));
  return {negate(context.calls, multiply(context.calls, context.grads[0], squared))};
}

Gradients grad_relu(const GradContext& context) {
  return {context.calls.one("aten::threshold_backward",
                            {context.grads[0], output(context), Scalar(0)})};
}

Gradients grad_rsqrt(const GradContext& context) {
  const DTensor cubed = context.calls.one("aten::pow.Tensor_Scalar", {output(context), Scalar(3)});
  return {multiply(context.calls, times(context.calls, context.grads[0], Scalar(-0.5)), cubed)};
}

/// Steps for real numbers; a complex direction turns with the part of the gradient across it.
Gradients grad_sgn(const GradContext& context) {
  Calls& calls = context.calls;
  const Expression z = in(context, 0), direction = z.of("aten::sgn"), gradient = flowing(context);
  if (!is_complex(z.value().dtype())) return grad_zeros(context);
  const auto parts = [](const Expression& x) { return x.of("aten::view_as_real"); };
  const Expression along(calls, calls.one("aten::sum.dim_IntList",
                                          {parts(gradient).times(parts(direction)), Dims{-1}}));
  const Expression size = z.of("aten::abs");
  const Expression slope = (gradient - direction * along).over(size.filled(size.eq(0), 1));
  return {slope.filled(z.eq(0), 0)};
}

/// silu_backward(grad_output, self)
Gradients grad_silu_backward(const GradContext& context) {
  const Expression g = in(context, 0), x = in(context, 1), share = x.of("aten::sigmoid");
  const Expression rest = -(share - 1);
  return {context.calls.one("aten::silu_backward", {context.grads[0], x}),
          (flowing(context) * g * share * rest).times(x * (rest - share) + 2)};
}

Expression slope_sin(const GradContext& context) { return in(context, 0).of("aten::cos"); }

Expression slope_sinh(const GradContext& context) { return in(context, 0).of("aten::cosh"); }

/// softplus_backward(grad_output, self, beta, threshold): beyond the threshold it is the identity.
Gradients grad_softplus_backward(const GradContext& context) {
  const Expression g = in(context, 0), x = in(context, 1);
  const double beta = context.inputs[2].to_double();
  const Expression scaled = x * beta, share = scaled.of("aten::sigmoid");
  const Expression slope =
      (share * -(share - 1) * beta).filled(scaled.gt(context.inputs[3].to_double()), 0);
  return {context.calls.one("aten::softplus_backward",
                            {context.grads[0], x, context.inputs[2], context.inputs[3]}),
          flowing(context) * g * slope};
}

Gradients grad_sqrt(const GradContext& context) {
  const DTensor twice = times(context.calls, output(context), Scalar(2));
  return {divide(context.calls, context.grads[0], twice)};
}

Expression slope_square(const GradContext& context) {
  return in(context, 0).with("aten::mul.Scalar", Scalar(2));
}

Gradients grad_tan(const GradContext& context) {
  const Expression y = out(context);
  return {flowing(context) * (y * y + 1.0)};
}

// The ops that compute gradients, (grad_output, at, ..): linear in the first, whose gradient is
// therefore the same op, and bent in the second.

/// `bend`: the slope of the op in its second tensor; null: 0 but for steps.
template <FixedText op, Expression (*bend)(const GradContext&) = nullptr>
Gradients grad_of_slope(const GradContext& context) {
  const auto linear = [&] {
    Arguments args = context.inputs;
    args[0] = context.grads[0];
    args[1] = in(context, 1).conjugate();
    return context.calls.one(op, std::move(args));
  };
  if constexpr (bend == nullptr) {
    return each(context, linear);
  } else {
    return each(context, linear, [&] {
      return (flowing(context).conjugate() * in(context, 0)).times(bend(context).conjugate());
    });
  }
}

Expression bend_of_sigmoid(const GradContext& context) { return in(context, 1) * -2.0 + 1.0; }
Expression bend_of_tanh(const GradContext& context) { return in(context, 1) * -2.0; }

/// The second derivative of x times the normal distribution, or of its form by tanh.
Expression bend_of_gelu(const GradContext& context) {
  const Expression x = in(context, 1), square = x * x;
  if (context.inputs[2].string() != "tanh") {
    const double density = std::sqrt(0.5 / std::numbers::pi);
    return ((square * -0.5).of("aten::exp") * density).times(-square + 2.0);
  }
  constexpr double kCubic = 0.044715;
  const double scale = std::sqrt(2 / std::numbers::pi);
  const Expression t = ((square * kCubic + 1.0) * x * scale).of("aten::tanh");
  const Expression slope = (square * (3 * kCubic) + 1.0) * scale;
  const Expression steep = -(t * t) + 1.0;
  const Expression turn = (x * (6 * kCubic * scale)).minus(t * slope * slope * 2.0);
  return steep * (slope + x * turn * 0.5);
}

constexpr const char* kWholeDecides =
    "the result depends on the whole value; a pending term is only a part of it";

/// round.decimals(self, *, decimals): rounded between two products
Results round_decimals(Calls& calls, const OpRow&, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (is_integral(x.dtype())) return calls("aten::clone", {x});
  const std::int64_t decimals = args[1].to_int();
  const double scale = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  const Expression given(calls, x);
  const Expression scaled = decimals > 0 ? given * scale : given / scale;
  const Expression rounded = scaled.of("aten::round");
  return {decimals > 0 ? rounded / scale : rounded * scale};
}

/// threshold(self, threshold, value): a value in place of all small numbers; for integers the
/// threshold is one, too.
Results threshold(Calls& calls, const OpRow&, const Arguments& args) {
  const Expression x(calls, args[0].tensor());
  Scalar bound = args[1].scalar();
  if (is_integral(x.value().dtype())) bound = static_cast<std::int64_t>(bound.to_double());
  return {x.filled(x.le(bound), args[2].scalar())};
}

/// A value above the threshold replaces smaller numbers, so that the order is not kept.
const char* threshold_filter(const RuleContext& context, std::span<const Placements> inputs) {
  const Arguments& args = context.schema.args;
  if (args[2].to_double() <= args[1].to_double()) return nullptr;
  for (const Placement& placement : inputs[0]) {
    if (placement.is_partial()) return "the value is larger than some of what it does not replace";
  }
  return nullptr;
}

// Sorted by name.
// clang-format off
constexpr Row kElementaryRows[] = {
    {"abs"_op, meta_real, kNone, KernelId::kAbs, {grad_of<slope_abs>, "self"},
     "|a + b| is not |a| + |b|"},
    on_floats("acos"_op, KernelId::kAcos, {holomorphic<grad_acos>, "self"},
              "defined on [-1, 1] only"),
    on_floats("asin"_op, KernelId::kAsin, {holomorphic<grad_asin>, "self"},
              "defined on [-1, 1] only"),
    rising("asinh"_op, meta_promoted_float, KernelId::kAsinh, {holomorphic<grad_asinh>, "self"}),
    rising("atan"_op, meta_promoted_float, KernelId::kAtan, {holomorphic<grad_atan>, "self"}),
    rising("ceil"_op, meta_tensors, KernelId::kCeil, {grad_zeros, ""}),
    on_floats("cos"_op, KernelId::kCos, {holomorphic_of<slope_cos>, "self"},
              "neither linear nor monotone"),
    on_floats("cosh"_op, KernelId::kCosh, {holomorphic_of<slope_cosh>, "self"},
              "neither linear nor monotone"),
    rising("erf"_op, meta_promoted_float, KernelId::kErf, {grad_erf, "self"}),
    {"erfc"_op, meta_promoted_float, kNonIncreasing, KernelId::kErfc, {grad_erfc, "self"},
     "non-increasing: max and min swap"},
    rising("exp"_op, meta_promoted_float, KernelId::kExp, {holomorphic_of<slope_exp>, "result"}),
    rising("exp2"_op, meta_promoted_float, KernelId::kExp2, {holomorphic<grad_exp2>, "result"}),
    rising("expm1"_op, meta_promoted_float, KernelId::kExpm1,
           {holomorphic_of<slope_expm1>, "result"}),
    rising("floor"_op, meta_tensors, KernelId::kFloor, {grad_zeros, ""}),
    {"frac"_op, meta_tensors, kNone, KernelId::kFrac, {grad_pass, ""}, "periodic"},
    {"gelu"_op, meta_tensors, kNone, KernelId::kGelu, {grad_by<"gelu_backward", 0, 1>, "self"},
     "neither linear nor known to be monotone"},
    {"gelu_backward"_op, meta_tensors, kNone, KernelId::kGeluBackward,
     {grad_of_slope<"aten::gelu_backward", bend_of_gelu>, "grad_output self"}, kWholeDecides},
    {"leaky_relu"_op, meta_tensors, kNone, KernelId::kLeakyRelu, {grad_leaky_relu, "self"},
     "neither linear nor known to be monotone"},
    {"leaky_relu_backward"_op, meta_floats, kNone, KernelId::kLeakyReluBackward,
     {grad_of_slope<"aten::leaky_relu_backward">, "self"}, kWholeDecides},
    on_floats("log"_op, KernelId::kLog, {holomorphic<grad_log>, "self"}, "undefined at x <= 0"),
    on_floats("log10"_op, KernelId::kLog10, {holomorphic<grad_log10>, "self"},
              "undefined at x <= 0"),
    on_floats("log1p"_op, KernelId::kLog1p, {holomorphic<grad_log1p>, "self"},
              "undefined at x <= -1"),
    on_floats("log2"_op, KernelId::kLog2, {holomorphic<grad_log2>, "self"}, "undefined at x <= 0"),
    {"neg"_op, meta_negated, kNegation, KernelId::kNeg, {grad_neg, ""}, "linear; max and min swap"},
    {"positive"_op, meta_tensors, kEveryPartial, KernelId::kPositive, {grad_pass, ""},
     "changes no value"},
    on_floats("reciprocal"_op, KernelId::kReciprocal, {holomorphic<grad_reciprocal>, "result"},
              "neither linear nor monotone across 0"),
    rising("relu"_op, meta_tensors, KernelId::kRelu, {grad_relu, "result"}),
    rising("round"_op, meta_tensors, KernelId::kRound, {grad_zeros, ""}),
    rising("round.decimals"_op, meta_tensors, round_decimals, {grad_zeros, ""}),
    on_floats("rsqrt"_op, KernelId::kRsqrt, {holomorphic<grad_rsqrt>, "result"},
              "undefined at x <= 0"),
    {"sgn"_op, meta_tensors, kNonDecreasingNumbers, KernelId::kSgn, {grad_sgn, "self"},
     "the sign of NaN is 0, which the largest of some signs need not be"},
    rising("sigmoid"_op, meta_promoted_float, KernelId::kSigmoid,
           {grad_by<"sigmoid_backward", kResult>, "result"}),
    {"sigmoid_backward"_op, meta_tensors, kNone, KernelId::kSigmoidBackward,
     {grad_of_slope<"aten::sigmoid_backward", bend_of_sigmoid>, "grad_output output"},
     kWholeDecides},
    {"sign"_op, meta_tensors, kNonDecreasingNumbers, KernelId::kSign, {grad_zeros, ""},
     "the sign of NaN is 0, which the largest of some signs need not be"},
    {"silu"_op, meta_tensors, kNone, KernelId::kSilu, {grad_by<"silu_backward", 0>, "self"},
     "neither linear nor known to be monotone"},
    {"silu_backward"_op, meta_tensors, kNone, KernelId::kSiluBackward,
     {grad_silu_backward, "grad_output self"}, kWholeDecides},
    on_floats("sin"_op, KernelId::kSin, {holomorphic_of<slope_sin>, "self"},
              "neither linear nor monotone"),
    rising("sinh"_op, meta_promoted_float, KernelId::kSinh, {holomorphic_of<slope_sinh>, "self"}),
    {"softplus"_op, meta_tensors, kNone, KernelId::kSoftplus,
     {grad_by<"softplus_backward", 0, 1, 2>, "self"}, "neither linear nor known to be monotone"},
    {"softplus_backward"_op, meta_tensors, kNone, KernelId::kSoftplusBackward,
     {grad_softplus_backward, "grad_output self"}, kWholeDecides},
    on_floats("sqrt"_op, KernelId::kSqrt, {holomorphic<grad_sqrt>, "result"}, "undefined at x < 0"),
    {"square"_op, meta_square, kNone, KernelId::kSquare, {holomorphic_of<slope_square>, "self"},
     "the square of a sum"},
    on_floats("tan"_op, KernelId::kTan, {holomorphic<grad_tan>, "result"},
              "neither linear nor monotone"),
    rising("tanh"_op, meta_promoted_float, KernelId::kTanh,
           {grad_by<"tanh_backward", kResult>, "result"}),
    {"tanh_backward"_op, meta_tensors, kNone, KernelId::kTanhBackward,
     {grad_of_slope<"aten::tanh_backward", bend_of_tanh>, "grad_output output"}, kWholeDecides},
    {"threshold"_op, meta_tensors, kNonDecreasing, threshold,
     {grad_by<"threshold_backward", 0, 1>, "self"},
     "non-decreasing where the value is below the threshold", 0, {}, threshold_filter},
    {"threshold_backward"_op, meta_tensors, kNone, KernelId::kThresholdBackward,
     {grad_of_slope<"aten::threshold_backward">, "self"}, kWholeDecides},
    rising("trunc"_op, meta_tensors, KernelId::kTrunc, {grad_zeros, ""}),
};
// clang-format on

}  // namespace

void register_elementary(OpRegistry& registry) { add_pointwise_rows(registry, kElementaryRows); }

}  // namespace shardlab
