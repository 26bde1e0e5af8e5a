// Arithmetic of several operands, element by element, and choosing between them (choices.h).
#include <cmath>
#include <complex>

#include "kernels/promotion.h"
#include "ops/elementwise/choices.h"
#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

/// A factor of integers is an integer.
OutputMetas meta_scaled(const MetaArgs& args) {
  OutputMetas outputs = meta_promoted(args);
  const DType dtype = outputs[0].meta.dtype;
  if (is_integral(dtype) && !argument_or_none(args, "alpha").scalar().is_integral()) {
    fail(Fix{"give an integer alpha, or cast the tensor first: x.float()"},
         "{}: alpha is a float, the result is {}", args.op().name(), to_string(dtype));
  }
  const bool truth = argument_or_none(args, "alpha").scalar().category() == Category::kBool;
  if (truth && dtype != DType::kBool) {
    fail(Fix{"write alpha=1, or leave it out"}, "{}: alpha is a bool, the result is {}",
         args.op().name(), to_string(dtype));
  }
  return outputs;
}

/// bool has no difference.
OutputMetas meta_difference(const MetaArgs& args) {
  for (std::size_t i = 0; i < 2; ++i) {
    const TensorMeta* tensor = args[i].is_scalar() ? nullptr : args.tensor(i);
    const bool truth = tensor != nullptr ? tensor->dtype == DType::kBool
                                         : args[i].scalar().category() == Category::kBool;
    if (!truth) continue;
    fail(ErrorKind::kUnsupported,
         Fix{"logical_xor(a, b) says where masks differ, logical_not(x) inverts one"},
         "{}: an operand is bool; truth values are not subtracted", args.op().name());
  }
  return meta_scaled(args);
}

/// A bound beyond the range of integers is no bound, unless no integer satisfies it.
void require_bounds(const MetaArgs& args, const Argument& least, const Argument& most,
                    DType dtype) {
  if (!is_integral(dtype)) return;
  const bool too_high = least.is_scalar() && least.to_int() > highest_number(dtype).to_int();
  const bool too_low = most.is_scalar() && most.to_int() < lowest_number(dtype).to_int();
  if (!too_high && !too_low) return;
  fail(Fix{fmt::format("give a bound from {} to {}", lowest_number(dtype).to_int(),
                       highest_number(dtype).to_int())},
       "{}: no number of dtype {} keeps to the bound {}", args.op().name(), to_string(dtype),
       (too_high ? least : most).text());
}

OutputMetas meta_clamp(const MetaArgs& args) {
  if (args[1].is_none() && args[2].is_none()) {
    fail(Fix{"write clamp(x, min=0), or max=, or both"}, "{} takes a lower or an upper bound",
         args.op().name());
  }
  OutputMetas outputs = meta_promoted(args);
  require_bounds(args, args[1], args[2], outputs[0].meta.dtype);
  return outputs;
}
OutputMetas meta_clamp_min(const MetaArgs& args) {
  OutputMetas outputs = meta_promoted(args);
  require_bounds(args, args[1], {}, outputs[0].meta.dtype);
  return outputs;
}
OutputMetas meta_clamp_max(const MetaArgs& args) {
  OutputMetas outputs = meta_promoted(args);
  require_bounds(args, {}, args[1], outputs[0].meta.dtype);
  return outputs;
}

OutputMetas meta_pow_scalar(const MetaArgs& args) {
  OutputMetas outputs = meta_promoted(args);
  if (is_integral(outputs[0].meta.dtype) && args[1].scalar().to_double() < 0) {
    fail(Fix{"cast the base first: pow(x.float(), -1)"},
         "{}: integers have no negative integer powers", args.op().name());
  }
  if (!representable(args[1].scalar(), outputs[0].meta.dtype)) {
    fail(Fix{"cast the base first: x.to(torch.int64)"},
         "{}: the exponent {} is out of the range of {}", args.op().name(), args[1].text(),
         to_string(outputs[0].meta.dtype));
  }
  return outputs;
}

/// Integers would have to be rounded.
OutputMetas meta_addcdiv(const MetaArgs& args) {
  OutputMetas outputs = meta_tensors(args);
  if (is_integral(outputs[0].meta.dtype)) {
    fail(Fix{"cast the tensors first: x.float()"}, "{} divides floats, not integers",
         args.op().name());
  }
  return outputs;
}

/// True division gives floats, a rounded one keeps integers.
OutputMetas meta_div_mode(const MetaArgs& args) {
  return args[2].is_none() ? meta_promoted_float(args) : meta_promoted(args);
}

/// masked_fill(self, mask, value): a tensor as value is one number.
OutputMetas meta_masked_fill(const MetaArgs& args) {
  const std::size_t ndim = args.tensor(2)->shape.size();
  if (ndim > 0) {
    fail(Fix{"where(mask, value, x) takes an element of value for each of x"},
         "{}: the value has {} dims, must have none", args.op().name(), ndim);
  }
  return meta_first(args);
}

/// lerp: floats or complex numbers of one dtype.
OutputMetas meta_lerp(const MetaArgs& args) {
  const DType dtype = require_float(args.op().name(), args.tensor(0)->dtype);
  if (dtype != args.tensor(1)->dtype) {
    fail(Fix{"cast one of them: end.to(x.dtype)"}, "{} takes tensors of one dtype, not {} and {}",
         args.op().name(), to_string(dtype), to_string(args.tensor(1)->dtype));
  }
  return meta_tensors(args);
}

/// The condition takes part in shape and strides, not in the dtype.
OutputMetas meta_where(const MetaArgs& args) {
  const DType condition = args.tensor(0)->dtype;
  if (condition != DType::kBool && condition != DType::kU8) {
    fail(Fix{"compare it with a number: x != 0"}, "{}: the condition is {}, must be bool",
         args.op().name(), to_string(condition));
  }
  Operands operands = tensor_operands(args);
  Operands values = operands;
  values.tensors.erase(0);
  return {elementwise_meta(args, operands, result_dtype(values))};
}

// ATen's op of a rounding mode, but with a gradient.
template <FixedText div>
Results floor_divide(Calls& calls, const OpRow&, const Arguments& args) {
  return calls(div, {args[0], args[1], "floor"});
}

/// The gradient of the angle of the point (other, self); at the origin there is none.
Gradients grad_atan2(const GradContext& context) {
  const Expression y = in(context, 0), x = in(context, 1);
  const Expression square = (y * y).plus(x * x);
  const Expression share = square.of("aten::reciprocal").filled(square.eq(0.0), 0.0);
  const Expression scaled = flowing(context) * share;
  return each(
      context, [&] { return scaled * x; }, [&] { return -(scaled * y); });
}

// The rest of a division: the divisor counts as often as it was subtracted.
Gradients grad_rest(const GradContext& context, const char* rounding) {
  const DTensor& gradient = context.grads[0];
  return each(
      context, [&] { return gradient; },
      [&] {
        const DTensor taken = context.calls.one(
            "aten::div.Tensor_mode", {input(context, 0), input(context, 1), Argument(rounding)});
        return negate(context.calls, multiply(context.calls, gradient, taken));
      });
}

Gradients grad_fmod(const GradContext& context) { return grad_rest(context, "trunc"); }
Gradients grad_remainder(const GradContext& context) { return grad_rest(context, "floor"); }

Gradients grad_add(const GradContext& context) {
  const Scalar alpha = context.inputs[2].scalar();
  return each(
      context, [&] { return context.grads[0]; },
      [&] { return times(context.calls, context.grads[0], alpha); });
}

Gradients grad_addcdiv(const GradContext& context) {
  const Expression scaled = flowing(context) * context.inputs[3].to_double();
  const Expression above = in(context, 1), below = in(context, 2);
  return each(
      context, [&] { return context.grads[0]; }, [&] { return scaled / below; },
      [&] {
        const Expression slope = -(above / (below * below));
        return scaled * slope;
      });
}

Gradients grad_addcmul(const GradContext& context) {
  const Expression scaled = flowing(context).with("aten::mul.Scalar", context.inputs[3]);
  return each(
      context, [&] { return context.grads[0]; }, [&] { return scaled * in(context, 2); },
      [&] { return scaled * in(context, 1); });
}

Gradients grad_unscale(const GradContext& context) {
  const DTensor scaled =
      context.calls.one("aten::div.Scalar", {context.grads[0], context.inputs[1].scalar()});
  return {cast_like(context.calls, scaled, input(context, 0))};
}

Gradients grad_div(const GradContext& context) {
  Calls& calls = context.calls;
  return each(
      context, [&] { return divide(calls, context.grads[0], input(context, 1)); },
      [&] {
        const DTensor quotient =
            divide(calls, divide(calls, input(context, 0), input(context, 1)), input(context, 1));
        return negate(calls, multiply(calls, context.grads[0], quotient));
      });
}

// The gradient of rounding is 0.
Gradients grad_div_mode(const GradContext& context) {
  if (context.inputs[2].is_none()) return grad_div(context);
  const auto flat = [&] { return zeros_like(context.calls, context.grads[0]); };
  return each(context, flat, flat);
}

Gradients grad_unscale_mode(const GradContext& context) {
  if (context.inputs[2].is_none()) return grad_unscale(context);
  return {zeros_like(context.calls, input(context, 0))};
}

Gradients grad_lerp_scalar(const GradContext& context) {
  const Scalar& weight = context.inputs[2].scalar();
  const std::complex<double> share(weight.to_double(), weight.imaginary());
  const Scalar shares[] = {
      weight.category() == Category::kComplex ? Scalar(1.0 - share) : Scalar(1 - share.real()),
      weight};
  const auto share_of = [&](std::size_t i) {
    return flowing(context).with("aten::mul.Scalar", shares[i]);
  };
  return each(
      context, [&] { return share_of(0); }, [&] { return share_of(1); });
}

Gradients grad_lerp_tensor(const GradContext& context) {
  const Expression gradient = flowing(context), weight = in(context, 2);
  return each(
      context, [&] { return gradient * (-weight + 1.0); }, [&] { return gradient * weight; },
      [&] {
        const Expression way = in(context, 1) - in(context, 0);
        return gradient * way;
      });
}

Gradients grad_scale(const GradContext& context) {
  const DTensor scaled = times(context.calls, context.grads[0], context.inputs[1].scalar());
  return {cast_like(context.calls, scaled, input(context, 0))};
}

Gradients grad_mul(const GradContext& context) {
  return each(
      context, [&] { return multiply(context.calls, context.grads[0], input(context, 1)); },
      [&] { return multiply(context.calls, context.grads[0], input(context, 0)); });
}

/// Exponents around which 0 ** y is 0: of complex numbers those without an imaginary part.
DTensor real_and_at_least_0(Calls& calls, const DTensor& exponent) {
  const Expression y(calls, exponent);
  if (!is_complex(exponent.dtype())) return calls.one("aten::ge.Scalar", {exponent, Scalar(0)});
  const Expression real = complex_part(y, 0), imaginary = complex_part(y, 1);
  const Expression at_least_0(calls, calls.one("aten::ge.Scalar", {real, Scalar(0)}));
  return at_least_0 && imaginary.eq(0);
}

Gradients grad_scalar_pow(const GradContext& context) {
  const double base = context.inputs[0].to_double();
  const DTensor slope = times(context.calls, output(context), Scalar(std::log(base)));
  const DTensor gradient = multiply(context.calls, context.grads[0], slope);
  if (base != 0 || context.inputs[0].scalar().imaginary() != 0) return {gradient};
  const DTensor flat = real_and_at_least_0(context.calls, input(context, 1));
  return {context.calls.one("aten::masked_fill.Scalar", {gradient, flat, Scalar(0)})};
}

Gradients grad_pow_scalar(const GradContext& context) {
  Calls& calls = context.calls;
  const Scalar exponent = context.inputs[1].scalar();
  if (!exponent.to_bool()) return {zeros_like(calls, input(context, 0))};
  Scalar less = exponent.to_double() - 1;
  if (exponent.is_integral()) less = exponent.to_int() - 1;
  if (exponent.category() == Category::kComplex)
    less = std::complex<double>(exponent.to_double() - 1, exponent.imaginary());
  const DTensor power = calls.one("aten::pow.Tensor_Scalar", {input(context, 0), less});
  return {multiply(calls, context.grads[0], times(calls, power, exponent))};
}

/// x ** 0 is 1 whatever x is, and 0 ** y is 0 for all y around a positive one: no slopes, though
/// the formulas have 0 * inf.
Gradients grad_pow_tensors(const GradContext& context) {
  Calls& calls = context.calls;
  const auto without = [&](const DTensor& slope, const DTensor& mask) {
    return calls.one("aten::masked_fill.Scalar", {slope, mask, Scalar(0)});
  };
  const DTensor& base = input(context, 0);
  const DTensor& exponent = input(context, 1);
  return each(
      context,
      [&] {
        const DTensor less = calls.one("aten::sub.Scalar", {exponent, Scalar(1)});
        const DTensor slope =
            multiply(calls, exponent, calls.one("aten::pow.Tensor_Tensor", {base, less}));
        const DTensor flat = calls.one("aten::eq.Scalar", {exponent, Scalar(0)});
        return without(multiply(calls, context.grads[0], slope), flat);
      },
      [&] {
        const DTensor slope = multiply(calls, output(context), calls.one("aten::log", {base}));
        const DTensor nothing = calls.one("aten::eq.Scalar", {base, Scalar(0)});
        const DTensor flat = multiply(calls, nothing, real_and_at_least_0(calls, exponent));
        return without(multiply(calls, context.grads[0], slope), flat);
      });
}

// The gradient of the operand that is subtracted alpha times.
DTensor subtracted(const GradContext& context) {
  const DTensor scaled = times(context.calls, context.grads[0], context.inputs[2].scalar());
  return negate(context.calls, scaled);
}

Gradients grad_rsub(const GradContext& context) {
  return each(
      context, [&] { return subtracted(context); }, [&] { return context.grads[0]; });
}

Gradients grad_rsub_scalar(const GradContext& context) { return {subtracted(context)}; }

Gradients grad_sub(const GradContext& context) {
  return each(
      context, [&] { return context.grads[0]; }, [&] { return subtracted(context); });
}

// Sorted by name.
// clang-format off
constexpr Row kArithmeticRows[] = {
    {"add.Scalar"_op, meta_scaled, kNone, KernelId::kAdd, {grad_pass, ""},
     "the number would be added once per rank"},
    {"add.Tensor"_op, meta_scaled, kAdditive, KernelId::kAdd, {grad_add, ""},
     "P(sum) + R would count R once per rank; infinities may cancel to NaN, so no P(max)"},
    {"addcdiv"_op, meta_addcdiv, kNone, KernelId::kAddcdiv,
     {holomorphic<grad_addcdiv>, "tensor1:tensor2 tensor2"}, "a quotient inside of a sum"},
    {"addcmul"_op, meta_tensors, kNone, KernelId::kAddcmul,
     {holomorphic<grad_addcmul>, "tensor1:tensor2 tensor2:tensor1"}, "a product inside of a sum"},
    on_floats("atan2"_op, KernelId::kAtan2, {grad_atan2, "self other"}, "depends on both signs"),
    {"clamp"_op, meta_clamp, kNone, KernelId::kClamp, {grad_clamp, "self"},
     "bounds hold for the whole, not for terms"},
    {"clamp.Tensor"_op, meta_clamp, kNone, KernelId::kClamp, {grad_clamp_tensors, "self min max"},
     "bounds hold for the whole, not for terms"},
    {"clamp_max"_op, meta_clamp_max, kNone, KernelId::kClampMax, {grad_clamp_max, "self"},
     "bounds hold for the whole, not for terms"},
    {"clamp_max.Tensor"_op, meta_promoted, kMinLike, KernelId::kClampMax,
     {grad_minimum, "self max"}, "monotone in each operand; a minimum of minima"},
    {"clamp_min"_op, meta_clamp_min, kNone, KernelId::kClampMin, {grad_clamp_min, "self"},
     "bounds hold for the whole, not for terms"},
    {"clamp_min.Tensor"_op, meta_promoted, kMaxLike, KernelId::kClampMin,
     {grad_maximum, "self min"}, "monotone in each operand; a maximum of maxima"},
    {"div.Scalar"_op, meta_promoted_float, kLinear, KernelId::kDiv,
     {holomorphic<grad_unscale>, "other"}, "linear"},
    {"div.Scalar_mode"_op, meta_div_mode, kNone, KernelId::kDiv, {grad_unscale_mode, "other"},
     "rounds: not linear"},
    {"div.Tensor"_op, meta_promoted_float, kQuotient, KernelId::kDiv,
     {holomorphic<grad_div>, "self:other other"}, "linear in the numerator"},
    {"div.Tensor_mode"_op, meta_div_mode, kNone, KernelId::kDiv,
     {grad_div_mode, "self:other other"}, "rounds: not linear"},
    {"floor_divide"_op, meta_promoted, kNone, floor_divide<"aten::div.Tensor_mode">, {},
     "rounds: not linear"},
    {"floor_divide.Scalar"_op, meta_promoted, kNone, floor_divide<"aten::div.Scalar_mode">, {},
     "rounds: not linear"},
    {"fmod.Scalar"_op, meta_promoted, kNone, KernelId::kFmod, {grad_pass, ""}, "periodic"},
    {"fmod.Tensor"_op, meta_promoted, kNone, KernelId::kFmod, {grad_fmod, "self:other other:other"},
     "periodic"},
    {"lerp.Scalar"_op, meta_lerp, kNone, KernelId::kLerp, {holomorphic<grad_lerp_scalar>, "weight"},
     "the weight may depend on the element"},
    {"lerp.Tensor"_op, meta_lerp, kNone, KernelId::kLerp,
     {holomorphic<grad_lerp_tensor>, "self:weight end:weight weight"},
     "the weight may depend on the element"},
    {"masked_fill.Scalar"_op, meta_first, kNone, KernelId::kMaskedFill, {grad_masked_fill, "mask"},
     "the fill would be counted once per rank"},
    {"masked_fill.Tensor"_op, meta_masked_fill, kNone, KernelId::kMaskedFill,
     {grad_masked_fill_tensor, "mask"}, "the fill would be counted once per rank"},
    {"maximum"_op, meta_promoted, kMaxLike, KernelId::kMaximum, {grad_maximum, "self other"},
     "monotone in each operand; a maximum of maxima"},
    {"minimum"_op, meta_promoted, kMinLike, KernelId::kMinimum, {grad_minimum, "self other"},
     "monotone in each operand; a minimum of minima"},
    {"mul.Scalar"_op, meta_promoted, kLinear, KernelId::kMul, {holomorphic<grad_scale>, "other"},
     "linear"},
    {"mul.Tensor"_op, meta_promoted, kProduct, KernelId::kMul,
     {holomorphic<grad_mul>, "self:other other:self"},
     "a product of two sums is not a sum of products"},
    {"pow.Scalar"_op, meta_promoted, kNone, KernelId::kPow,
     {holomorphic<grad_scalar_pow>, "exponent result"}, "a power of a sum"},
    {"pow.Tensor_Scalar"_op, meta_pow_scalar, kNone, KernelId::kPow,
     {holomorphic<grad_pow_scalar>, "self"}, "a power of a sum"},
    {"pow.Tensor_Tensor"_op, meta_promoted, kNone, KernelId::kPow,
     {holomorphic<grad_pow_tensors>, "self exponent result"}, "a power of a sum"},
    {"remainder.Scalar"_op, meta_promoted, kNone, KernelId::kRemainder, {grad_pass, ""},
     "periodic"},
    {"remainder.Scalar_Tensor"_op, meta_promoted, kNone, KernelId::kRemainder, {}, "periodic"},
    {"remainder.Tensor"_op, meta_promoted, kNone, KernelId::kRemainder,
     {grad_remainder, "self:other other:other"}, "periodic"},
    {"rsub.Scalar"_op, meta_difference, kNone, KernelId::kRsub, {grad_rsub_scalar, ""},
     "the number would be added once per rank"},
    {"rsub.Tensor"_op, meta_difference, kAdditive, KernelId::kRsub, {grad_rsub, ""},
     "as sub.Tensor, the other way round"},
    {"sub.Scalar"_op, meta_difference, kNone, KernelId::kSub, {grad_pass, ""},
     "the number would be subtracted once per rank"},
    {"sub.Tensor"_op, meta_difference, kAdditive, KernelId::kSub, {grad_sub, ""},
     "P(sum) + R would count R once per rank; infinities may cancel to NaN, so no P(max)"},
    {"where.self"_op, meta_where, kNone, KernelId::kWhere, {grad_where, "condition"},
     "terms follow the condition, which the other branch does not"},
};
// clang-format on

}  // namespace

void register_arithmetic(OpRegistry& registry) {
  add_pointwise_rows(registry, kArithmeticRows);
  // The reference lets no partial pass here.
  for (const char* name :
       {"clamp_max_.Tensor", "clamp_max.Tensor_out", "clamp_min_.Tensor", "clamp_min.Tensor_out"}) {
    registry.set_rule(name, PointwiseRule{});
  }
}

}  // namespace shardlab
