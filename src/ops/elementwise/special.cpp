// Special functions and orthogonal polynomials, element by element. Their slopes are other special
// functions; the polynomials have none in the reference.
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

const double kRootOfPi = std::sqrt(std::numbers::pi);

/// Only integers have divisors.
OutputMetas meta_integers(const MetaArgs& args) {
  OutputMetas outputs = meta_tensors(args);
  const DType dtype = outputs[0].meta.dtype;
  if (!is_integral(dtype) || dtype == DType::kBool) {
    fail(Fix{"cast it first: x.to(torch.int64)"}, "{} takes integers, not {}", args.op().name(),
         to_string(dtype));
  }
  return outputs;
}

/// Halves of 16 bits with a short exponent have neighbours of their own, which no kernel computes.
OutputMetas meta_neighbour(const MetaArgs& args) {
  OutputMetas outputs = meta_tensors(args);
  const DType dtype = outputs[0].meta.dtype;
  if (is_integral(dtype) || is_complex(dtype)) {
    fail(Fix{"cast it first: x.float()"}, "{} takes floats, not {}", args.op().name(),
         to_string(dtype));
  }
  return outputs;
}

OutputMetas meta_frexp(const MetaArgs& args) {
  OutputMetas outputs = meta_tensors(args);
  require_float(args.op().name(), outputs[0].meta.dtype);
  outputs.push_back(outputs[0]);
  outputs[1].meta.dtype = DType::kI32;
  return outputs;
}

OutputMetas meta_polygamma(const MetaArgs& args) {
  if (argument_or_none(args, "n").to_int() < 0) {
    fail(Fix{"n counts derivatives of digamma: 0, 1, .."}, "{}: n is {}, must not be negative",
         args.op().name(), argument_or_none(args, "n").text());
  }
  OutputMetas outputs = meta_tensors(args);
  outputs[0].meta.dtype = float_dtype(outputs[0].meta.dtype);
  return outputs;
}

OutputMetas meta_mvlgamma(const MetaArgs& args) {
  constexpr std::int64_t kMostDims = 1 << 12;  // one logarithm for each
  if (args[1].to_int() < 1 || args[1].to_int() > kMostDims) {
    fail(Fix{"p counts dims: 1, 2, .."}, "{}: p is {}, must be from 1 to {}", args.op().name(),
         args[1].text(), kMostDims);
  }
  OutputMetas outputs = meta_tensors(args);
  outputs[0].meta.dtype = float_dtype(outputs[0].meta.dtype);
  return outputs;
}

// Programs

/// The sum of lgamma(x - j / 2) for j below p, and a constant.
Results mvlgamma(Calls& calls, const OpRow&, const Arguments& args) {
  const std::int64_t p = args[1].to_int();
  Expression x(calls, args[0].tensor());
  x = x.to(float_dtype(x.value().dtype()));
  Expression sum = x.of("aten::lgamma");
  for (std::int64_t j = 1; j < p; ++j) {
    sum = sum + (x - 0.5 * static_cast<double>(j)).of("aten::lgamma");
  }
  const double constant = static_cast<double>(p * (p - 1)) / 4 * std::log(std::numbers::pi);
  return {sum + constant};
}

/// polygamma_(self, n): as polygamma(n, self)
Results polygamma_in_place(Calls& calls, const OpRow&, const Arguments& args) {
  return calls("aten::copy_", {args[0], calls.one("aten::polygamma", {args[1], args[0]})});
}

/// native_dropout_backward(grad_output, mask, scale)
Results dropout_backward(Calls& calls, const OpRow&, const Arguments& args) {
  const DTensor kept = calls.one("aten::mul.Tensor", {args[0], args[1]});
  return {calls.one("aten::mul.Scalar", {kept, args[2]})};
}

/// logit_backward(grad_output, self, eps): flat where eps bounds; without, logit is NaN beyond, and
/// at 0, whatever its sign, infinitely steep.
Results logit_backward(Calls& calls, const OpRow&, const Arguments& args) {
  const Expression gradient(calls, args[0].tensor()), x(calls, args[1].tensor());
  const double eps = args[2].is_none() ? 0 : args[2].to_double();
  const Expression outside = x.lt(eps) || x.gt(1 - eps);
  const double beyond = args[2].is_none() ? std::nan("") : 0;
  const Expression width = (x * (-x + 1.0)).of("aten::abs");
  return {(gradient / width).filled(outside, beyond)};
}

// Gradients

/// native_dropout_backward(grad_output, mask, scale)
Gradients grad_dropout_backward(const GradContext& context) {
  return {flowing(context) * in(context, 1) * context.inputs[2].to_double()};
}

// The root of a product is that of its factors, where no factor has a sign.
Expression slope_acosh(const GradContext& c) {
  const Expression x = in(c, 0);
  if (is_complex(input(c, 0).dtype())) {
    return (x - 1.0).of("aten::rsqrt").times((x + 1.0).of("aten::rsqrt"));
  }
  return (x * x - 1.0).of("aten::rsqrt");
}
Expression slope_lgamma(const GradContext& c) { return in(c, 0).of("aten::digamma"); }
Expression polygamma(Calls& calls, std::int64_t n, const DTensor& x) {
  return {calls, calls.one("aten::polygamma", {n, x})};
}
Expression slope_digamma(const GradContext& c) { return polygamma(c.calls, 1, input(c, 0)); }
Expression slope_polygamma(const GradContext& c) {
  return polygamma(c.calls, c.inputs[0].to_int() + 1, input(c, 1));
}
Expression slope_polygamma_in_place(const GradContext& c) {
  return polygamma(c.calls, c.inputs[1].to_int() + 1, input(c, 0));
}
Expression slope_mvlgamma(const GradContext& c) {
  const Expression x = in(c, 0);
  Expression sum = x.of("aten::digamma");
  for (std::int64_t j = 1; j < c.inputs[1].to_int(); ++j) {
    sum = sum + (x - 0.5 * static_cast<double>(j)).of("aten::digamma");
  }
  return sum;
}
Expression slope_erfinv(const GradContext& c) {
  const Expression y = in(c, 0).of("aten::erfinv");
  return (y * y).of("aten::exp") * (kRootOfPi / 2);
}
Expression slope_ndtri(const GradContext& c) {
  const Expression y = out(c);
  return (y * y * 0.5).of("aten::exp") * (kRootOfPi * std::numbers::sqrt2);
}
Expression slope_log_ndtr(const GradContext& c) {
  const Expression x = in(c, 0) * (-1 / std::numbers::sqrt2);
  return x.of("aten::special_erfcx").of("aten::reciprocal") * (std::numbers::sqrt2 / kRootOfPi);
}
Expression slope_erfcx(const GradContext& c) { return in(c, 0) * out(c) * 2.0 - 2 / kRootOfPi; }

// I' = I of the order below, less order I / x; around 0 that is 1/2 for order 1.
Expression over_input(const GradContext& c) {
  const Expression x = in(c, 0);
  return (out(c) / x).filled(x.eq(0), 0.5);
}
Expression slope_i0(const GradContext& c) { return in(c, 0).of("aten::special_i1"); }
Expression slope_i0e(const GradContext& c) {
  return in(c, 0).of("aten::special_i1e").minus(in(c, 0).of("aten::sgn") * out(c));
}
Expression slope_i1(const GradContext& c) { return in(c, 0).of("aten::i0").minus(over_input(c)); }
Expression slope_i1e(const GradContext& c) {
  const Expression x = in(c, 0);
  return x.of("aten::special_i0e").minus(over_input(c)).minus(x.of("aten::sgn") * out(c));
}
Expression slope_j0(const GradContext& c) { return -in(c, 0).of("aten::special_bessel_j1"); }
Expression slope_j1(const GradContext& c) {
  return in(c, 0).of("aten::special_bessel_j0").minus(over_input(c));
}
Expression slope_y0(const GradContext& c) { return -in(c, 0).of("aten::special_bessel_y1"); }
Expression slope_y1(const GradContext& c) {
  const Expression x = in(c, 0);
  return x.of("aten::special_bessel_y0")
      .minus(out(c) / x)
      .filled(x.eq(0), std::numeric_limits<double>::infinity());
}
Expression slope_k0(const GradContext& c) {
  return -in(c, 0).of("aten::special_modified_bessel_k1");
}
Expression slope_k1(const GradContext& c) {
  return -in(c, 0).of("aten::special_modified_bessel_k0").plus(out(c) / in(c, 0));
}

/// frexp: the exponent is a step.
Gradients grad_frexp(const GradContext& context) {
  const Expression exponent(context.calls, context.outputs[1].tensor());
  return {flowing(context) / exponent.of("aten::exp2").to(input(context, 0).dtype())};
}

/// Only of the second operand; the first has none in the reference.
Gradients second_only(const GradContext& context, const Expression& slope) {
  Gradients gradients(2);
  const bool scalar = !context.inputs[0].is_tensor();
  const std::size_t place = scalar ? 0 : 1;
  if (context.needs(place)) {
    gradients[place] = sum_to(context.calls, flowing(context) * slope, input(context, 1));
  }
  if (scalar) gradients.resize(1);
  return gradients;
}
Gradients grad_zeta(const GradContext& context) {
  Calls& calls = context.calls;
  const bool scalar = !context.inputs[0].is_tensor();
  const DTensor x =
      scalar ? calls.one("aten::full", {Dims{}, context.inputs[0], input(context, 1).dtype()})
             : input(context, 0);
  const Expression order(calls, x);
  const Expression next = (order + 1.0).with("aten::special_zeta", input(context, 1));
  return second_only(context, -(order * next));
}
/// The integrand of the gamma integral.
Expression density(const GradContext& context) {
  const Expression a = in(context, 0), x = in(context, 1);
  return ((a - 1.0).times(x.of("aten::log")) - x).minus(a.of("aten::lgamma")).of("aten::exp");
}
Gradients grad_igamma(const GradContext& context) { return second_only(context, density(context)); }
Gradients grad_igammac(const GradContext& context) {
  return second_only(context, -density(context));
}

DTensor operand(const GradContext& context, std::size_t index, const DTensor& like) {
  if (context.inputs[index].is_tensor()) return input(context, index);
  return context.calls.one("aten::full", {Dims{}, context.inputs[index], like.dtype()});
}

/// x log(1 + y); where x is 0 and the logarithm is none, its slope counts as 0.
Gradients grad_xlog1py(const GradContext& context) {
  Calls& calls = context.calls;
  const DTensor& like = input(context, context.inputs[0].is_tensor() ? 0 : 1);
  const Expression x(calls, operand(context, 0, like)), y(calls, operand(context, 1, like));
  Gradients gradients;
  if (context.inputs[0].is_tensor()) {
    const Expression slope = y.of("aten::log1p").filled(x.eq(0) && y.le(-1), 0);
    gradients.push_back(sum_to(calls, flowing(context) * slope, x));
  }
  if (context.inputs[1].is_tensor()) {
    const Expression slope = x / (y + 1.0);
    gradients.push_back(sum_to(calls, flowing(context) * slope, y));
  }
  return gradients;
}

/// The step changes with its start, except where it is none.
Gradients grad_nextafter(const GradContext& context) {
  const Expression x = in(context, 0), y = in(context, 1);
  return {sum_to(context.calls, flowing(context).filled(x.eq(y), 0), x)};
}

constexpr PointwiseRule kFalling{"xn"};  // of x > 0, where an empty piece's maximum is not
constexpr const char* kCurve = "neither linear nor monotone";
constexpr const char* kDomain = "not defined for every number";
constexpr const char* kPositive = "falls for x > 0: of the least the largest; below 0 undefined";
constexpr const char* kDivisors = "divisors of a sum are not those of its terms";

/// The share of a normal law below x.
Results ndtr(Calls& calls, const OpRow&, const Arguments& args) {
  const Expression given(calls, args[0].tensor());
  const DType dtype = given.value().dtype();
  const Expression x = given.to(is_integral(dtype) ? DType::kF32 : f32_for_half(dtype));
  const Expression share = (x * -std::numbers::sqrt2 * 0.5).of("aten::erfc") * 0.5;
  return {share.to(is_integral(dtype) ? DType::kF32 : dtype)};
}

Expression slope_ndtr(const GradContext& c) {
  const Expression x = in(c, 0);
  return (x * x * -0.5).of("aten::exp") * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
}

// Sorted by name.
// clang-format off
constexpr Row kSpecialRows[] = {
    {"_standard_gamma_grad"_op, meta_alike_floats, kNone, KernelId::kStandardGammaGrad, {},
     kDomain},
    on_floats("acosh"_op, KernelId::kAcosh, {holomorphic_of<slope_acosh>, "self"}, kDomain),
    on_floats("digamma"_op, KernelId::kDigamma, {grad_of<slope_digamma>, "self"}, kCurve),
    on_floats("erfinv"_op, KernelId::kErfinv, {grad_of<slope_erfinv>, "self"}, kDomain),
    {"frexp.Tensor"_op, meta_frexp, kNone, KernelId::kFrexp, {grad_frexp, "result1"}, kCurve},
    {"gcd"_op, meta_integers, kNone, KernelId::kGcd, {}, kDivisors, kNotDifferentiable},
    on_floats("i0"_op, KernelId::kI0, {grad_of<slope_i0>, "self"}, kCurve),
    on_floats("igamma"_op, KernelId::kIgamma, {grad_igamma, "self other"}, kDomain),
    on_floats("igammac"_op, KernelId::kIgammac, {grad_igammac, "self other"}, kDomain),
    {"lcm"_op, meta_integers, kNone, KernelId::kLcm, {}, kDivisors, kNotDifferentiable},
    on_floats("lgamma"_op, KernelId::kLgamma, {grad_of<slope_lgamma>, "self"}, kCurve),
    {"logit_backward"_op, meta_floats, kNone, logit_backward, {}, kDomain},
    {"mvlgamma"_op, meta_mvlgamma, kNone, mvlgamma, {grad_of<slope_mvlgamma>, "self"}, kCurve},
    {"native_dropout_backward"_op, meta_promoted, kNone, dropout_backward,
     {grad_dropout_backward, "mask !mask"}, "the mask is of the whole gradient"},
    {"nextafter"_op, meta_neighbour, kNone, KernelId::kNextafter, {grad_nextafter, "self other"},
     "terms have other neighbours than their sum"},
    {"polygamma"_op, meta_polygamma, kNone, KernelId::kPolygamma,
     {grad_of<slope_polygamma>, "self"}, kCurve},
    {"polygamma_"_op, meta_polygamma, kNone, polygamma_in_place,
     {grad_of<slope_polygamma_in_place>, "self"}, kCurve},
    on_floats("special_airy_ai"_op, KernelId::kAiryAi, {}, kCurve),
    on_floats("special_bessel_j0"_op, KernelId::kBesselJ0, {grad_of<slope_j0>, "self"}, kCurve),
    on_floats("special_bessel_j1"_op, KernelId::kBesselJ1, {grad_of<slope_j1>, "self result"},
              kCurve),
    on_floats("special_bessel_y0"_op, KernelId::kBesselY0, {grad_of<slope_y0>, "self"}, kCurve),
    on_floats("special_bessel_y1"_op, KernelId::kBesselY1, {grad_of<slope_y1>, "self result"},
              kCurve),
    {"special_erfcx"_op, meta_promoted_float, kNonIncreasing, KernelId::kErfcx,
     {grad_of<slope_erfcx>, "self result"}, "non-increasing: max and min swap"},
    on_floats("special_i0e"_op, KernelId::kI0e, {grad_of<slope_i0e>, "self result"}, kCurve),
    on_floats("special_i1"_op, KernelId::kI1, {grad_of<slope_i1>, "self result"},
              "the reference lets no partial pass"),
    on_floats("special_i1e"_op, KernelId::kI1e, {grad_of<slope_i1e>, "self result"}, kCurve),
    on_floats("special_log_ndtr"_op, KernelId::kLogNdtr, {grad_of<slope_log_ndtr>, "self"},
              "the reference lets no partial pass"),
    on_floats("special_modified_bessel_i0"_op, KernelId::kI0, {grad_of<slope_i0>, "self"}, kCurve),
    rising("special_modified_bessel_i1"_op, meta_promoted_float, KernelId::kI1,
           {grad_of<slope_i1>, "self result"}),
    {"special_modified_bessel_k0"_op, meta_promoted_float, kFalling, KernelId::kK0,
     {grad_of<slope_k0>, "self"}, kPositive},
    {"special_modified_bessel_k1"_op, meta_promoted_float, kFalling, KernelId::kK1,
     {grad_of<slope_k1>, "self result"}, kPositive},
    on_floats("special_ndtr"_op, ndtr, {grad_of<slope_ndtr>, "self"}, kCurve),
    on_floats("special_ndtri"_op, KernelId::kNdtri, {grad_of<slope_ndtri>, "result"}, kDomain),
    {"special_scaled_modified_bessel_k0"_op, meta_promoted_float, kFalling, KernelId::kScaledK0, {},
     kPositive},
    {"special_scaled_modified_bessel_k1"_op, meta_promoted_float, kFalling, KernelId::kScaledK1, {},
     kPositive},
    on_floats("special_spherical_bessel_j0"_op, KernelId::kSphericalBesselJ0, {}, kCurve),
    {"special_xlog1py"_op, meta_promoted_float, kQuotient, KernelId::kXlog1py,
     {grad_xlog1py, "self other"}, "linear in the first operand"},
    on_floats("special_xlog1py.other_scalar"_op, KernelId::kXlog1py, {grad_xlog1py, "self other"},
              "the reference lets no partial pass"),
    on_floats("special_xlog1py.self_scalar"_op, KernelId::kXlog1py, {grad_xlog1py, "self other"},
              kDomain),
    on_floats("special_zeta"_op, KernelId::kZeta, {grad_zeta, "self other"}, kDomain),
    on_floats("special_zeta.other_scalar"_op, KernelId::kZeta, {}, kDomain),
    on_floats("special_zeta.self_scalar"_op, KernelId::kZeta, {grad_zeta, "self other"}, kDomain),
};
// clang-format on

struct Polynomial {
  RowText name;
  KernelId kernel;
};
constexpr Polynomial kPolynomials[] = {
    {"special_chebyshev_polynomial_t"_op, KernelId::kChebyshevT},
    {"special_chebyshev_polynomial_u"_op, KernelId::kChebyshevU},
    {"special_chebyshev_polynomial_v"_op, KernelId::kChebyshevV},
    {"special_chebyshev_polynomial_w"_op, KernelId::kChebyshevW},
    {"special_hermite_polynomial_h"_op, KernelId::kHermiteH},
    {"special_hermite_polynomial_he"_op, KernelId::kHermiteHe},
    {"special_laguerre_polynomial_l"_op, KernelId::kLaguerreL},
    {"special_legendre_polynomial_p"_op, KernelId::kLegendreP},
    {"special_shifted_chebyshev_polynomial_t"_op, KernelId::kShiftedChebyshevT},
    {"special_shifted_chebyshev_polynomial_u"_op, KernelId::kShiftedChebyshevU},
    {"special_shifted_chebyshev_polynomial_v"_op, KernelId::kShiftedChebyshevV},
    {"special_shifted_chebyshev_polynomial_w"_op, KernelId::kShiftedChebyshevW},
};

/// A degree is as many steps for each element.
OutputMetas meta_polynomial(const MetaArgs& args) {
  constexpr double kMostSteps = 1e6;
  if (args.tensor(1) == nullptr && args[1].to_double() > kMostSteps) {
    fail(Fix{"give a degree of at most 1000000"},
         "{}: the degree is {}, which takes too many steps", args.op().name(), args[1].text());
  }
  return meta_promoted_float(args);
}

/// Each polynomial of tensors, of a number x, and of a number n.
void register_polynomials(OpRegistry& registry) {
  for (const auto& [name, kernel] : kPolynomials) {
    for (const std::string overload : {"", "x_scalar", "n_scalar"}) {
      const std::string full = std::string(name.text) + (overload.empty() ? "" : ".") + overload;
      const Row row{{{full.c_str()}, name.source}, meta_polynomial, kNone, kernel, {},
                    "a polynomial of a sum"};
      add_pointwise_rows(registry, {&row, 1});
    }
  }
}

}  // namespace

void register_special(OpRegistry& registry) {
  add_pointwise_rows(registry, kSpecialRows);
  register_polynomials(registry);
  // The reference lets no partial pass here.
  for (const char* name :
       {"special_modified_bessel_i1.out", "special_modified_bessel_k0.out",
        "special_modified_bessel_k1.out", "special_scaled_modified_bessel_k0.out",
        "special_scaled_modified_bessel_k1.out", "special_xlog1py.out"}) {
    registry.set_rule(name, PointwiseRule{});
  }
}

}  // namespace shardlab
