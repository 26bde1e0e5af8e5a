// Elementwise functions that are formulas over other ones: activations, logarithms of sums, numbers
// that are not numbers. Each rank computes the formula on its pieces, half types in f32; gradients
// are formulas on global values.
#include <complex>
#include <limits>
#include <numbers>

#include "kernels/promotion.h"
#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;

// One call on a rank's pieces: its operands in the dtype that it computes in, and its result.
class Pieces {
 public:
  Pieces(Calls& calls, const OpRow& row, const Arguments& args)
      : calls_(calls), args_(args), dtype_(result_of(row.base != nullptr ? *row.base : row)) {}

  /// A tensor, or a number as one without dims.
  Expression operator[](std::size_t index) const {
    const DType wide = f32_for_half(dtype_);
    if (args_[index].is_tensor()) return given(index).to(wide);
    return {calls_, calls_.one("aten::full", {Dims{}, args_[index], wide})};
  }
  /// The argument, unchanged.
  Expression given(std::size_t index) const { return {calls_, args_[index].tensor()}; }
  const Argument& argument(std::size_t index) const { return args_[index]; }
  double number(std::size_t index) const { return args_[index].to_double(); }
  DType dtype() const { return dtype_; }

 private:
  DType result_of(const OpRow& base) const {
    const std::size_t count = base.op.arguments.size();
    const Arguments args(args_.begin(), args_.begin() + static_cast<std::ptrdiff_t>(count));
    MetaList metas;
    for (std::size_t i = 0; i < count; ++i) {
      if (!base.op.arguments[i].type.is_tensor()) continue;
      metas.push_back(args[i].is_tensor() ? &args[i].tensor().meta() : nullptr);
    }
    return base.meta(MetaArgs(base.op, args, std::move(metas)))[0].meta.dtype;
  }

  Calls& calls_;
  const Arguments& args_;
  DType dtype_;
};

/// Runs a formula on a rank's pieces.
template <Expression (*formula)(const Pieces&)>
Results per_element(Calls& calls, const OpRow& row, const Arguments& args) {
  const Pieces pieces(calls, row, args);
  return {formula(pieces).to(pieces.dtype())};
}

Expression abs_of(const Expression& x) { return x.of("aten::abs"); }
Expression exp_of(const Expression& x) { return x.of("aten::exp"); }
Expression log_of(const Expression& x) { return x.of("aten::log"); }
Expression log1p_of(const Expression& x) { return x.of("aten::log1p"); }
Expression sqrt_of(const Expression& x) { return x.of("aten::sqrt"); }
Expression nan_in(const Expression& x) { return x.of("aten::isnan"); }

// Shape and dtype

/// f64, or c128.
OutputMetas meta_float_power(const MetaArgs& args) {
  OutputMetas outputs = meta_promoted(args);
  DType& dtype = outputs[0].meta.dtype;
  dtype = is_complex(dtype) ? DType::kC128 : DType::kF64;
  return outputs;
}

/// The angle is real.
OutputMetas meta_angle(const MetaArgs& args) {
  OutputMetas outputs = meta_promoted_float(args);
  outputs[0].meta.dtype = real_dtype(outputs[0].meta.dtype);
  return outputs;
}

/// Both operands have one dtype.
OutputMetas meta_heaviside(const MetaArgs& args) {
  if (args.tensor(0)->dtype != args.tensor(1)->dtype) {
    fail(Fix{"cast one of them: values.to(x.dtype)"},
         "{} takes tensors of one dtype, not {} and {}", args.op().name(),
         to_string(args.tensor(0)->dtype), to_string(args.tensor(1)->dtype));
  }
  return meta_tensors(args);
}

// Formulas

Expression atanh(const Pieces& p) {
  const Expression x = p[0];
  if (is_complex(p.dtype())) return log_of(x + 1).minus(log_of(-x + 1)) * 0.5;
  return log1p_of(x).minus(log1p_of(-x)) * 0.5;
}

Expression sinc(const Pieces& p) {
  const Expression x = p[0], angle = x * kPi;
  return (angle.of("aten::sin") / angle).filled(x.eq(0), 1.0);
}

Expression deg2rad(const Pieces& p) { return p[0] * (kPi / 180); }
Expression rad2deg(const Pieces& p) { return p[0] * (180 / kPi); }

Expression elu_of(const Expression& x, double below, double above, double inner) {
  const Expression bent = (x * inner).of("aten::expm1") * below;
  return x.le(0).choose(bent, x * above);
}
Expression elu(const Pieces& p) {
  return elu_of(p[0], p.number(1) * p.number(2), p.number(2), p.number(3));
}
Expression celu(const Pieces& p) {
  if (p.number(1) == 0) {
    fail(Fix{"give another alpha; relu is its limit"}, "celu: alpha is 0, which it divides by");
  }
  return elu_of(p[0], p.number(1), 1, 1 / p.number(1));
}

constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSeluScale = 1.0507009873554804934193349852946;
Expression selu(const Pieces& p) { return elu_of(p[0], kSeluAlpha * kSeluScale, kSeluScale, 1); }

Expression within(const Expression& x, const Argument& low, const Argument& high) {
  return x.with("aten::clamp_min", low).with("aten::clamp_max", high);
}
Expression hardtanh(const Pieces& p) { return within(p[0], p.argument(1), p.argument(2)); }
Expression relu6(const Pieces& p) { return within(p[0], 0, 6); }
Expression hardsigmoid(const Pieces& p) { return within(p[0] + 3, 0, 6) / 6; }
Expression hardswish(const Pieces& p) { return p[0].times(within(p[0] + 3, 0, 6)) / 6; }

Expression mish(const Pieces& p) {
  const Expression x = p[0];
  return x * log1p_of(exp_of(x)).of("aten::tanh");
}

Expression softshrink(const Pieces& p) {
  const Expression x = p[0];
  const double width = p.number(1);
  if (!(width >= 0)) {
    fail(Fix{"give a lambd of at least 0"}, "softshrink: lambd is {}, must not be negative",
         p.argument(1).text());
  }
  const Expression above = x - width, below = x + width;
  return x.gt(width).choose(above, x.lt(-width).choose(below, x * 0.0));
}

Expression hardshrink(const Pieces& p) {
  const Expression x = p[0];
  return x.filled(abs_of(x).le(p.number(1)), 0);
}

Expression logit(const Pieces& p) {
  Expression x = p[0];
  if (!p.argument(1).is_none()) {
    const double eps = p.number(1);
    const bool wide = f32_for_half(p.dtype()) == DType::kF64;
    const double high = wide ? 1 - eps : 1.0F - static_cast<float>(eps);
    x = x.with("aten::clamp_max", high).filled(x.lt(eps), eps);
  }
  return log_of(x / (-x + 1));
}

Expression nan_to_num(const Pieces& p) {
  const Expression x = p.given(0);
  if (is_integral(p.dtype())) return x.of("aten::clone");
  const auto replaced = [&](const Expression& real) {
    const auto or_else = [&](std::size_t index, double number) {
      return p.argument(index).is_none() ? number : p.number(index);
    };
    const double most = largest_finite(real.value().dtype());
    return real.filled(nan_in(real), or_else(1, 0))
        .filled(real.eq(kInfinity), or_else(2, most))
        .filled(real.eq(-kInfinity), or_else(3, -most));
  };
  if (!is_complex(p.dtype())) return replaced(x);
  return replaced(x.of("aten::view_as_real")).of("aten::view_as_complex");
}

Expression larger(const Expression& a, const Expression& b) { return a.with("aten::maximum", b); }

/// max(a, b) + log(1 + base^-|a - b|); infinities that are equal differ by nothing.
Expression log_of_sum(const Expression& a, const Expression& b, std::string_view power,
                      double unit) {
  const Expression rest = log1p_of((-abs_of(a - b)).of(power)) * unit;
  const Expression same = a.eq(b) && a.of("aten::isinf");
  return same.choose(a, larger(a, b) + rest);
}
/// For complex numbers the angle continues from that of the larger one, as in a running sum.
Expression last_sum(const Pieces& p) {
  const Expression a = p[0], b = p[1];
  Calls& calls = a.calls();
  const Results both = calls("aten::broadcast_tensors", {ArgumentList{a, b}});
  const DTensor pair = calls.one("aten::stack", {both[0], 0});
  const DTensor sums = calls.one("aten::logcumsumexp", {pair, 0});
  return {calls, calls.one("aten::select.int", {sums, 0, 1})};
}
Expression logaddexp(const Pieces& p) {
  if (is_complex(p.dtype())) return last_sum(p);
  return log_of_sum(p[0], p[1], "aten::exp", 1);
}
Expression logaddexp2(const Pieces& p) {
  return log_of_sum(p[0], p[1], "aten::exp2", std::numbers::log2e);
}

/// The larger one times a root, so that squares do not overflow.
Expression hypot(const Pieces& p) {
  const Expression a = abs_of(p[0]), b = abs_of(p[1]);
  const Expression most = larger(a, b), least = a.with("aten::minimum", b);
  const Expression ratio = least / most;
  const Expression infinite = a.of("aten::isinf") || b.of("aten::isinf");
  return (most * sqrt_of(ratio * ratio + 1)).filled(most.eq(0), 0).filled(infinite, kInfinity);
}

/// NaN loses against every number.
Expression number_first(const Expression& a, const Expression& b, std::string_view extremum) {
  return nan_in(a).choose(b, nan_in(b).choose(a, a.with(extremum, b)));
}
Expression fmax(const Pieces& p) { return number_first(p[0], p[1], "aten::maximum"); }
Expression fmin(const Pieces& p) { return number_first(p[0], p[1], "aten::minimum"); }

Expression copysign(const Pieces& p) {
  const Expression size = abs_of(p[0]);
  return p[1].of("aten::signbit").choose(-size, size);
}

Expression float_power(const Pieces& p) {
  if (p.argument(1).is_tensor()) return p[0].with("aten::pow.Tensor_Tensor", p[1]);
  return p[0].with("aten::pow.Tensor_Scalar", p.argument(1));
}

Expression heaviside(const Pieces& p) {
  const Expression x = p.given(0), at_zero = p.given(1);
  return x.eq(0).choose(at_zero, x.gt(0).to(x.value().dtype()));
}

// An integer moves the exponent, even where the power of two itself is outside of the dtype: three
// steps in f64 are enough for any that counts. Other exponents are powers in the dtype.
Expression ldexp(const Pieces& p) {
  const bool moves = is_integral(p.given(1).value().dtype());
  if (!moves || is_complex(p.dtype())) return p[0].times(p[1].of("aten::exp2"));
  constexpr double kMost = 3000;
  const Expression given = p[1].to(DType::kF64);
  const Expression exponent = given.with("aten::clamp_min", -kMost).with("aten::clamp_max", kMost);
  const Expression third = exponent.with("aten::mul.Scalar", 1.0 / 3).of("aten::trunc");
  const Expression step = third.of("aten::exp2"), rest = exponent - third - third;
  const Expression shifted = p[0].to(DType::kF64).times(step).times(step);
  return shifted.times(rest.of("aten::exp2")).to(f32_for_half(p.dtype()));
}

/// 0 where x is 0, whatever the logarithm is; but NaN stays.
Expression xlogy(const Pieces& p) {
  const Expression x = p[0], y = p[1];
  return (x * log_of(y)).filled(x.eq(0) && !nan_in(y), 0);
}

Expression entr(const Pieces& p) {
  const Expression x = p[0];
  return (-x).times(log_of(x)).filled(x.eq(0), 0).filled(x.lt(0), -kInfinity);
}

Expression isposinf(const Pieces& p) { return p.given(0).eq(kInfinity); }
Expression isneginf(const Pieces& p) { return p.given(0).eq(-kInfinity); }

Expression angle(const Pieces& p) {
  const Expression x = p.given(0);
  if (is_complex(x.value().dtype())) {
    return complex_part(x, 1).with("aten::atan2", complex_part(x, 0));
  }
  const Expression real = p[0];
  return (real * 0.0).filled(!nan_in(real), 0.0).filled(real.lt(0), kPi);
}

Expression conjugate(const Expression& x) {
  if (!is_complex(x.value().dtype())) return x;
  const ArgumentList parts{complex_part(x, 0), -complex_part(x, 1)};
  Calls& calls = x.calls();
  return Expression(calls, calls.one("aten::stack", {parts, -1})).of("aten::view_as_complex");
}
Expression conj_physical(const Pieces& p) {
  const Expression x = p.given(0);
  return is_complex(p.dtype()) ? conjugate(x) : x.of("aten::clone");
}

// Gradients

/// Real numbers have steps; around the origin the angle turns by 1 / |z| per length of way.
Gradients grad_angle(const GradContext& c) {
  const Expression z = in(c, 0);
  if (!is_complex(z.value().dtype())) return {zeros_like(c.calls, input(c, 0))};
  const Expression size = z.of("aten::abs"), turn = flowing(c) / (size * size);
  const Expression across = z.with("aten::mul.Scalar", Scalar(std::complex<double>(0, 1)));
  return {across * turn.filled(size.eq(0), 0)};
}

// Gradients of two tensors; a number has none.
template <Expression (*first)(const GradContext&), Expression (*second)(const GradContext&)>
Gradients grad_of_both(const GradContext& context) {
  Gradients gradients;
  for (const std::size_t i : {0, 1}) {
    if (!context.inputs[i].is_tensor()) continue;
    gradients.emplace_back();
    if (!context.needs(gradients.size() - 1)) continue;
    const Expression gradient = i == 0 ? first(context) : second(context);
    gradients.back() = sum_to(context.calls, gradient, input(context, i));
  }
  return gradients;
}

Expression slope_atanh(const GradContext& c) {
  return (-(in(c, 0) * in(c, 0)) + 1).of("aten::reciprocal");
}
Expression slope_sinc(const GradContext& c) {
  const Expression x = in(c, 0), angle = x * kPi;
  const Expression square = angle * x;
  const Expression slope = (angle.of("aten::cos") * angle).minus(angle.of("aten::sin")) / square;
  return slope.filled(square.eq(0), 0);
}

Gradients grad_deg2rad(const GradContext& c) { return {flowing(c) * (kPi / 180)}; }
Gradients grad_rad2deg(const GradContext& c) { return {flowing(c) * (180 / kPi)}; }

/// 1 where the mask holds, as a factor.
Expression factor(const Expression& mask, const GradContext& c) {
  return mask.to(c.grads[0].dtype());
}

Expression slope_of_elu(const GradContext& c, double below, double above, double inner) {
  const Expression x = in(c, 0), beyond = exp_of(x * inner) * (below * inner);
  return x.le(0).choose(beyond, x.with("aten::full_like", above));
}
Expression slope_elu(const GradContext& c) {
  const double scale = c.inputs[2].to_double();
  return slope_of_elu(c, c.inputs[1].to_double() * scale, scale, c.inputs[3].to_double());
}
Expression slope_celu(const GradContext& c) {
  const double alpha = c.inputs[1].to_double();
  return slope_of_elu(c, alpha, 1, 1 / alpha);
}
Expression slope_selu(const GradContext& c) {
  return slope_of_elu(c, kSeluAlpha * kSeluScale, kSeluScale, 1);
}

// NaN meets no bound: there each slope is the value that the reference's comparison leaves.
Expression not_beyond(const GradContext& c, const Argument& low, const Argument& high) {
  return factor(!(in(c, 0).le(low) || in(c, 0).ge(high)), c);
}
Expression slope_hardtanh(const GradContext& c) { return not_beyond(c, c.inputs[1], c.inputs[2]); }
Expression slope_relu6(const GradContext& c) { return not_beyond(c, 0, 6); }
Expression slope_hardsigmoid(const GradContext& c) {
  return factor(in(c, 0).gt(-3) && in(c, 0).lt(3), c) * kOneSixth;
}
Expression slope_hardswish(const GradContext& c) {
  const Expression x = in(c, 0);
  return (x / 3 + 0.5).filled(x.le(-3), 0).filled(!x.lt(3), 1);
}
Expression slope_mish(const GradContext& c) {
  const Expression x = in(c, 0), height = log1p_of(exp_of(x)).of("aten::tanh");
  return height + (x * x.of("aten::sigmoid")).times(-(height * height) + 1);
}
Expression slope_shrink(const GradContext& c) {
  return factor(!abs_of(in(c, 0)).le(c.inputs[1]), c);
}

Expression slope_logit(const GradContext& c) {
  const Expression x = in(c, 0);
  const bool bounded = !c.inputs[1].is_none();
  const double low = bounded ? c.inputs[1].to_double() : 0;
  const Expression outside = x.lt(low) || x.gt(1 - low);
  return (x * (-x + 1)).of("aten::reciprocal").filled(outside, bounded ? 0 : kNan);
}

Gradients grad_nan_to_num(const GradContext& c) {
  const Expression x = in(c, 0);
  return {flowing(c).filled(nan_in(x) || x.of("aten::isinf"), 0)};
}

/// The part of the first power in a sum of powers.
template <FixedText power, std::size_t mine>
Expression share(const GradContext& c) {
  return flowing(c) / ((in(c, 1 - mine) - in(c, mine)).of(power) + 1);
}

template <std::size_t mine>
Expression leg(const GradContext& c) {
  return flowing(c) * (in(c, mine) / out(c));
}

// The first operand is taken where `wins` holds, or the other is not a number; equal ones share.
template <FixedText wins>
Expression first_taken(const GradContext& c) {
  return in(c, 0).with(wins, input(c, 1)) || nan_in(in(c, 1));
}
Expression shared(const GradContext& c) { return factor(in(c, 0).eq(input(c, 1)), c) * 0.5; }
template <FixedText wins>
Expression to_first(const GradContext& c) {
  return flowing(c) * factor(first_taken<wins>(c), c).plus(shared(c));
}
template <FixedText wins>
Expression to_second(const GradContext& c) {
  const Expression taken = !(first_taken<wins>(c) || in(c, 0).eq(input(c, 1)));
  return flowing(c) * factor(taken, c).plus(shared(c));
}

Expression sign_kept(const GradContext& c) {
  return flowing(c) * (out(c) / in(c, 0)).filled(in(c, 0).eq(0), 0);
}
Expression nothing(const GradContext& c) { return flowing(c).of("aten::zeros_like"); }

Expression power_of(const GradContext& c, std::size_t index) {
  const Argument& operand = c.inputs[index];
  if (operand.is_tensor()) return in(c, index).to(c.grads[0].dtype());
  return {c.calls, c.calls.one("aten::full_like", {c.grads[0], operand})};
}
Expression by_base(const GradContext& c) {
  const Expression base = power_of(c, 0), exponent = power_of(c, 1);
  const Expression slope = exponent * base.with("aten::pow.Tensor_Tensor", exponent - 1);
  return flowing(c) * slope.filled(exponent.eq(0), 0);
}
Expression by_exponent(const GradContext& c) {
  const Expression base = power_of(c, 0), exponent = power_of(c, 1);
  const Expression slope = base.with("aten::pow.Tensor_Tensor", exponent).times(log_of(base));
  return flowing(c) * slope.filled(base.eq(0) && exponent.ge(0), 0);
}

Expression by_mantissa(const GradContext& c) { return flowing(c) * in(c, 1).of("aten::exp2"); }
Expression by_twos(const GradContext& c) { return flowing(c) * out(c) * std::numbers::ln2; }

Expression xlogy_first(const GradContext& c) {
  const Expression y = power_of(c, 1), x = in(c, 0);
  return flowing(c).with("aten::xlogy.Tensor", y).filled(x.eq(0) && y.le(0), 0);
}
Expression xlogy_second(const GradContext& c) { return flowing(c) * power_of(c, 0) / in(c, 1); }

Expression slope_entr(const GradContext& c) { return -(log_of(in(c, 0)) + 1); }

Gradients grad_conj(const GradContext& c) { return {conjugate(flowing(c))}; }

constexpr PointwiseRule kMonotone{"xxr xrx nnr nrn"};
constexpr PointwiseRule kLargestNumber{"Xxr Xrx Nnr Nrn Xxx"};
constexpr PointwiseRule kSmallestNumber{"Xxr Xrx Nnr Nrn Nnn"};

constexpr const char* kShape = "neither linear nor known to be monotone";
constexpr const char* kDomain = "not defined for every number";
constexpr const char* kNumbers = "NaN loses, which terms cannot know of the whole";
constexpr const char* kProduct2 = "a product of two sums is not a sum of products";

// Sorted by name.
// clang-format off
constexpr Row kActivationRows[] = {
    {"angle"_op, meta_angle, kNone, per_element<angle>, {grad_angle, "self"}, kShape},
    on_floats("atanh"_op, per_element<atanh>, {holomorphic_of<slope_atanh>, "self"}, kDomain),
    {"celu"_op, meta_floats, kNone, per_element<celu>, {grad_of<slope_celu>, "self"}, kShape},
    {"conj_physical"_op, meta_tensors, kNone, per_element<conj_physical>, {grad_conj, ""}, kShape},
    on_floats("copysign.Scalar"_op, per_element<copysign>,
              {grad_of_both<sign_kept, nothing>, "self result"}, kShape),
    on_floats("copysign.Tensor"_op, per_element<copysign>,
              {grad_of_both<sign_kept, nothing>, "self:self result:self"}, "depends on both signs"),
    rising("deg2rad"_op, meta_promoted_float, per_element<deg2rad>, {grad_deg2rad, ""}),
    {"elu"_op, meta_floats, kNone, per_element<elu>, {grad_of<slope_elu>, "self"}, kShape},
    {"float_power.Scalar"_op, meta_float_power, kNone, per_element<float_power>,
     {grad_of_both<by_base, by_exponent>, "exponent"}, "a power of a sum"},
    {"float_power.Tensor_Scalar"_op, meta_float_power, kNone, per_element<float_power>,
     {grad_of_both<by_base, by_exponent>, "self"}, "a power of a sum"},
    {"float_power.Tensor_Tensor"_op, meta_float_power, kNone, per_element<float_power>,
     {grad_of_both<by_base, by_exponent>, "self exponent"}, "a power of a sum"},
    {"fmax"_op, meta_promoted, kLargestNumber, per_element<fmax>,
     {grad_of_both<to_first<"aten::gt.Tensor">, to_second<"aten::gt.Tensor">>, "self other"},
     kNumbers},
    {"fmin"_op, meta_promoted, kSmallestNumber, per_element<fmin>,
     {grad_of_both<to_first<"aten::lt.Tensor">, to_second<"aten::lt.Tensor">>, "self other"},
     kNumbers},
    rising("hardshrink"_op, meta_floats, per_element<hardshrink>, {grad_of<slope_shrink>, "self"}),
    {"hardsigmoid"_op, meta_floats, kNone, per_element<hardsigmoid>,
     {grad_of<slope_hardsigmoid>, "self"}, kShape},
    {"hardswish"_op, meta_floats, kNone, per_element<hardswish>, {grad_of<slope_hardswish>, "self"},
     kShape},
    {"hardtanh"_op, meta_tensors, kNone, per_element<hardtanh>, {grad_of<slope_hardtanh>, "self"},
     "bounds hold for the whole, not for terms"},
    {"heaviside"_op, meta_heaviside, kNone, per_element<heaviside>, {}, kShape, kNotDifferentiable},
    {"hypot"_op, meta_floats, kNone, per_element<hypot>,
     {grad_of_both<leg<0>, leg<1>>, "self:self other:other result"}, kShape},
    on_truths("isneginf"_op, per_element<isneginf>, {}, kShape, kNotDifferentiable),
    on_truths("isposinf"_op, per_element<isposinf>, {}, kShape, kNotDifferentiable),
    on_floats("ldexp.Tensor"_op, per_element<ldexp>,
              {holomorphic<grad_of_both<by_mantissa, by_twos>>, "other:self result:other"},
              kProduct2),
    {"logaddexp"_op, meta_floats, kMonotone, per_element<logaddexp>,
     {holomorphic<grad_of_both<share<"aten::exp", 0>, share<"aten::exp", 1>>>, "self other"},
     "monotone in each operand"},
    {"logaddexp2"_op, meta_floats, kMonotone, per_element<logaddexp2>,
     {grad_of_both<share<"aten::exp2", 0>, share<"aten::exp2", 1>>, "self other"},
     "monotone in each operand"},
    on_floats("logit"_op, per_element<logit>, {grad_of<slope_logit>, "self"}, kDomain),
    {"mish"_op, meta_floats, kNone, per_element<mish>, {grad_of<slope_mish>, "self"}, kShape},
    {"nan_to_num"_op, meta_tensors, kNonDecreasingNumbers, per_element<nan_to_num>,
     {grad_nan_to_num, "self"}, kNumbers},
    rising("rad2deg"_op, meta_promoted_float, per_element<rad2deg>, {grad_rad2deg, ""}),
    {"relu6"_op, meta_tensors, kNone, per_element<relu6>, {grad_of<slope_relu6>, "self"},
     "bounds hold for the whole, not for terms"},
    {"selu"_op, meta_floats, kNone, per_element<selu>, {grad_of<slope_selu>, "self"}, kShape},
    on_floats("sinc"_op, per_element<sinc>, {holomorphic_of<slope_sinc>, "self"}, kShape),
    {"softshrink"_op, meta_floats, kNone, per_element<softshrink>, {grad_of<slope_shrink>, "self"},
     kShape},
    on_floats("special_entr"_op, per_element<entr>, {grad_of<slope_entr>, "self"}, kDomain),
    on_floats("xlogy.Scalar_Other"_op, per_element<xlogy>,
              {grad_of_both<xlogy_first, xlogy_second>, "self other"}, kDomain),
    on_floats("xlogy.Scalar_Self"_op, per_element<xlogy>,
              {grad_of_both<xlogy_first, xlogy_second>, "other"}, kDomain),
    on_floats("xlogy.Tensor"_op, per_element<xlogy>,
              {grad_of_both<xlogy_first, xlogy_second>, "self other"}, kProduct2),
};
// clang-format on

}  // namespace

void register_activation(OpRegistry& registry) { add_pointwise_rows(registry, kActivationRows); }

}  // namespace shardlab
