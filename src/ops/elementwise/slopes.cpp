// Activations with a weight or a random slope, and the ops by which the reference computes the
// gradients of activations: formulas on global values, in f32 for half types.
#include "ops/elementwise/slopes.h"

#include <cmath>

#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

/// Tensor arguments in the dtype that is computed in, and results in their own.
class Formula {
 public:
  Formula(Calls& calls, const Arguments& args) : calls_(calls), args_(args) {
    for (const Argument& argument : args) {
      if (!argument.is_tensor()) continue;
      const DType dtype = argument.tensor().dtype();
      dtype_ = found_ ? promote(dtype_, dtype) : dtype;
      found_ = true;
    }
    if (is_floating(dtype_)) return;
    fail(Fix{"cast it first: x.float()"}, "an activation takes floats, not {}", to_string(dtype_));
  }
  Expression operator[](std::size_t index) const {
    return Expression(calls_, args_[index].tensor()).to(f32_for_half(dtype_));
  }
  /// An operand that several steps read, and not each term by itself.
  Expression whole(std::size_t index) const {
    return Expression(calls_, grad::reduced(calls_, args_[index].tensor()))
        .to(f32_for_half(dtype_));
  }
  double number(std::size_t index) const { return args_[index].to_double(); }
  DTensor result(const Expression& value) const { return value.to(dtype_); }

 private:
  Calls& calls_;
  const Arguments& args_;
  DType dtype_ = DType::kF32;
  bool found_ = false;
};

/// A gradient by its formula.
template <Expression (*formula)(const Formula&)>
Results by_formula(Calls& calls, const Arguments& args) {
  const Formula given(calls, args);
  return {given.result(formula(given))};
}

/// elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result)
Results elu_backward(Calls& calls, const Arguments& args) {
  const Formula f(calls, args);
  const double below = f.number(1) * f.number(2), above = f.number(2), inner = f.number(3);
  const bool is_result = args[4].to_bool();
  if (is_result && f.number(1) < 0) {
    fail(Fix{"pass the input instead of the result"},
         "elu_backward: alpha is {}; of a negative one the result does not tell the input",
         args[1].text());
  }
  const Expression x = f.whole(5), gradient = f.whole(0);
  const Expression bent =
      is_result ? (x + below) * inner : (x * inner).of("aten::exp") * (inner * below);
  const Expression below_zero = gradient * bent;
  return {f.result(x.le(0).choose(below_zero, gradient * above))};
}

/// hardsigmoid_backward(grad_output, self)
Expression hardsigmoid_backward(const Formula& f) {
  const Expression x = f[1];
  return (f[0] * kOneSixth).filled(!(x.gt(-3) && x.lt(3)), 0);
}

/// hardswish_backward(grad_output, self)
Expression hardswish_backward(const Formula& f) {
  const Expression x = f[1], gradient = f[0];
  return x.lt(3).choose((gradient * (x / 3 + 0.5)).filled(x.le(-3), 0), gradient);
}

/// hardtanh_backward(grad_output, self, min_val, max_val)
Expression hardtanh_backward(const Formula& f) {
  const Expression x = f[1];
  return f[0].filled(x.le(f.number(2)) || x.ge(f.number(3)), 0);
}

/// softshrink_backward, hardshrink_backward(grad_output, self, lambd)
Expression shrink_backward(const Formula& f) {
  const Expression x = f[1];
  return f[0].filled(x.ge(-f.number(2)) && x.le(f.number(2)), 0);
}

/// mish_backward(grad_output, self): of the dtype of self
Results mish_backward(Calls& calls, const Arguments& args) {
  const Formula f(calls, args);
  const DType dtype = require_float("mish_backward", args[1].tensor().dtype());
  const Expression x = f.whole(1), height = x.of("aten::softplus").of("aten::tanh");
  const Expression slope = height + (x * x.of("aten::sigmoid")).times(-(height * height) + 1);
  return {(f[0] * slope).to(dtype)};
}

/// log_sigmoid_forward(self): output, and exp(-|x|) for the gradient
Results log_sigmoid(Calls& calls, const Arguments& args) {
  const Formula f(calls, args);
  const Expression x = f.whole(0), small = (-x.of("aten::abs")).of("aten::exp");
  return {f.result(x.with("aten::clamp_max", 0).minus(small.of("aten::log1p"))), f.result(small)};
}

/// log_sigmoid_backward(grad_output, self, buffer)
Results log_sigmoid_backward(Calls& calls, const Arguments& args) {
  require_one_dtype("log_sigmoid_backward",
                    {{"self", args[1]}, {"grad_output", args[0]}, {"buffer", args[2]}});
  const Formula f(calls, args);
  return {f.result(f[0].times((-f[1]).of("aten::sigmoid")))};
}

/// The steps' own gradient would differ: they have a kink at 0.
Gradients grad_log_sigmoid(const GradContext& context) {
  if (!context.grads[0].defined()) return Gradients(1);
  const DTensor& small = context.outputs[1].tensor();
  return {context.calls.one("aten::log_sigmoid_backward",
                            {context.grads[0], input(context, 0), small})};
}

// glu(self, dim): one half of a dim times the sigmoid of the other

std::array<Expression, 2> halves(Calls& calls, const Expression& x, const Argument& argument) {
  const DTensor& whole = x;
  const std::int64_t dim = wrap_dim(argument.to_int(), whole.ndim());
  const std::int64_t length = whole.ndim() == 0 ? 1 : whole.shape()[index_of(dim)];
  if (length % 2 != 0) {
    fail(Fix{"name a dim of even size"}, "glu: dim {} has size {}; it must have two equal halves",
         dim, length);
  }
  const auto half = [&](std::int64_t start) -> Expression {
    return {calls, calls.one("aten::slice.Tensor", {whole, dim, start, start + length / 2})};
  };
  return {half(0), half(length / 2)};
}

Results glu(Calls& calls, const Arguments& args) {
  const Formula f(calls, args);
  const auto [values, gates] = halves(calls, f[0], args[1]);
  return {f.result(values * gates.of("aten::sigmoid"))};
}

/// glu_backward(grad_output, self, dim)
Results glu_backward(Calls& calls, const Arguments& args) {
  require_one_dtype("glu_backward", {{"self", args[1]}, {"grad_output", args[0]}});
  const Formula f(calls, args);
  const auto [values, gates] = halves(calls, f.whole(1), args[2]);
  const Expression open = gates.of("aten::sigmoid"), gradient = f[0];
  if (gradient.value().shape() != values.value().shape()) {
    fail(Fix{"pass the gradient of what glu gave"},
         "glu_backward: the gradient does not have the shape of one half");
  }
  const Expression shut = (-open + 1) * open * values * gradient;
  const ArgumentList both{f.result(open * gradient), f.result(shut)};
  return {calls.one("aten::cat", {both, args[2]})};
}

// prelu(self, weight): a slope for each channel below 0

Results prelu_kernel(Calls& calls, const Arguments& args) {
  require_one_dtype("prelu", {{"self", args[0]}, {"weight", args[1]}});
  const Formula f(calls, args);
  const Expression x = f.whole(0);
  return {f.result(x.gt(0).choose(x, f.whole(1) * x))};
}

/// _prelu_kernel_backward(grad_output, self, weight): both gradients, of the shape of self
Results prelu_backward(Calls& calls, const Arguments& args) {
  require_one_dtype("_prelu_kernel_backward",
                    {{"self", args[1]}, {"grad_output", args[0]}, {"weight", args[2]}});
  const Formula f(calls, args);
  const Expression gradient = f[0], x = f[1], above = x.gt(0);
  return {f.result(above.choose(gradient, f[2] * gradient)),
          f.result((x * gradient).filled(above, 0))};
}

Gradients grad_prelu(const GradContext& context) {
  const Results slopes = context.calls("aten::_prelu_kernel_backward",
                                       {context.grads[0], input(context, 0), input(context, 1)});
  return each(
      context, [&] { return slopes[0].tensor(); }, [&] { return slopes[1].tensor(); });
}

Results prelu(Calls& calls, const Arguments& args) {
  const DTensor &x = args[0].tensor(), &weight = args[1].tensor();
  const std::int64_t channels = x.ndim() < 2 ? 1 : x.shape()[1];
  if (weight.ndim() > 1 || (weight.numel() != 1 && weight.numel() != channels)) {
    fail(
        Fix{fmt::format("give a weight of shape [1] or [{}]", channels)},
        "prelu: there are {} weights in {} dims; there must be one, or one for each of {} channels",
        weight.numel(), weight.ndim(), channels);
  }
  Dims line(x.ndim(), 1);
  if (x.ndim() >= 2) line[1] = weight.numel();
  return calls("aten::_prelu_kernel", {x, calls.one("aten::reshape", {weight, line})});
}

// rrelu_with_noise(self, noise, lower, upper, training, generator): below 0 a slope that is drawn
// for each element and kept in `noise`.

struct Slopes {
  DTensor result, noise;
};

Slopes leak(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const double lower = args[2].to_double(), upper = args[3].to_double();
  if (!(lower <= upper)) {
    fail(Fix{"give a lower bound that is not above the upper one"},
         "rrelu_with_noise: slopes are drawn from {} to {}; the lower bound must not be above the "
         "upper one",
         lower, upper);
  }
  if (!args[4].to_bool()) {
    return {calls.one("aten::leaky_relu", {x, (lower + upper) / 2}), args[1].tensor()};
  }
  const DTensor drawn =
      calls.one("aten::uniform", {calls.one("aten::zeros_like", {x}), lower, upper, args[5]});
  const Expression self(calls, x), slope(calls, drawn);
  const Expression noise = slope.filled(self.gt(0), 1);
  return {self * noise, noise};
}

Results rrelu(Calls& calls, const Arguments& args) {
  const Slopes slopes = leak(calls, args);
  if (args[4].to_bool()) calls("aten::copy_", {args[1], slopes.noise});
  return {slopes.result};
}

/// Result and noise.
OutputMetas meta_rrelu(const MetaArgs& args) {
  const OutputMetas like = meta_like(args);
  return {like[0], like[0]};
}

Results rrelu_functional(Calls& calls, const Arguments& args) {
  const Slopes slopes = leak(calls, args);
  return {slopes.result, slopes.noise};
}

/// rrelu(self, lower, upper, training, generator): without the noise
Results rrelu_alone(Calls& calls, const Arguments& args) {
  const DTensor noise = calls.one("empty_like", {args[0]});
  return {calls("rrelu_with_noise_functional",
                {args[0], noise, args[1], args[2], args[3], args[4]})[0]};
}

/// rrelu_with_noise_backward(grad_output, self, noise, lower, upper, training, self_is_result)
Results rrelu_backward(Calls& calls, const Arguments& args) {
  const double lower = args[3].to_double(), upper = args[4].to_double();
  if (args[5].to_bool() && upper - lower > 1e-6) {
    return calls("aten::mul.Tensor", {args[0], args[2]});
  }
  return calls("aten::leaky_relu_backward", {args[0], args[1], (lower + upper) / 2, args[6]});
}

// Dropouts that the reference takes apart

/// alpha_dropout(input, p, train): dropped elements take the lower bound of selu, and the result is
/// scaled to keep mean and variance.
Results alpha_dropout(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const double p = args[1].to_double();
  if (!(p >= 0 && p <= 1)) {
    fail(Fix{"p is the share of the elements that are dropped"},
         "alpha_dropout: p is {}, must be in [0, 1]", args[1].text());
  }
  if (p == 0 || !args[2].to_bool() || x.numel() == 0) return {x};
  if (p == 1) return calls("aten::mul.Scalar", {x, 0});
  return {dropped_to_floor(calls, x, calls.one("aten::zeros_like", {x}), p)};
}

/// _fused_dropout(self, p, generator): p is the share that is kept
Results fused_dropout(Calls& calls, const Arguments& args) {
  const double kept = args[1].to_double();
  if (!(kept > 0 && kept <= 1)) {
    fail(Fix{"p is the share of the elements that are kept"},
         "_fused_dropout: p is {}, must be above 0 and at most 1", args[1].text());
  }
  const Expression x(calls, args[0].tensor());
  const DTensor places = calls.one("aten::zeros_like", {x});
  const Expression mask(calls, calls.one("aten::bernoulli_.float", {places, kept, args[2]}));
  return {x * mask * (1 / kept), mask.to(DType::kU8)};
}

constexpr const char* kSlope = "pointwise, from the input";
constexpr const char* kDrawn = "drawn by global index";

// Sorted by name.
// clang-format off
constexpr Row kSlopeRows[] = {
    composite("_fused_dropout"_op, fused_dropout, "a product with a mask", kRandom),
    composite("_prelu_kernel"_op, prelu_kernel, {grad_prelu, "self weight"}, "where"),
    composite("_prelu_kernel_backward"_op, prelu_backward, kSlope),
    composite("alpha_dropout"_op, alpha_dropout, "bernoulli_ and a product", kRandom),
    composite("elu_backward"_op, elu_backward, kSlope),
    composite("glu"_op, glu, {grad_by<"glu_backward", 0, 1>, "self"}, "a product of two slices"),
    composite("glu_backward"_op, glu_backward, "both halves side by side"),
    composite("hardshrink_backward"_op, by_formula<shrink_backward>, {nullptr, "grad_out self"},
              kSlope),
    composite("hardsigmoid_backward"_op, by_formula<hardsigmoid_backward>, kSlope),
    composite("hardswish_backward"_op, by_formula<hardswish_backward>, kSlope),
    composite("hardtanh_backward"_op, by_formula<hardtanh_backward>, {nullptr, "grad_output self"},
              kSlope),
    composite("log_sigmoid"_op, result_of<"log_sigmoid_forward", 0>, "log_sigmoid_forward"),
    composite("log_sigmoid_backward"_op, log_sigmoid_backward, kSlope),
    composite("log_sigmoid_forward"_op, log_sigmoid, {grad_log_sigmoid, "self result1 !result1"},
              "log1p and exp"),
    composite("mish_backward"_op, mish_backward, kSlope),
    composite("prelu"_op, prelu, "_prelu_kernel"),
    composite("rrelu"_op, rrelu_alone, kDrawn, kRandom),
    composite("rrelu_with_noise"_op, rrelu, kDrawn, kRandom),
    composite("rrelu_with_noise_backward"_op, rrelu_backward, kSlope),
    {"rrelu_with_noise_functional"_op, meta_rrelu, kNone, rrelu_functional, {}, kDrawn,
     kRandom | kAllowUneven},
    composite("softshrink_backward"_op, by_formula<shrink_backward>, {nullptr, "grad_output self"},
              kSlope),
};
// clang-format on

}  // namespace

DTensor dropped_to_floor(Calls& calls, const DTensor& x, const DTensor& room, double p) {
  constexpr double kAlpha = 1.7580993408473766;
  const double scale = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const Expression kept(calls, calls.one("aten::bernoulli_.float", {room, 1 - p}));
  const Expression floor = (kept - 1.0) * (kAlpha * scale) + kAlpha * scale * p;
  return Expression(calls, x).times(kept * scale) + floor;
}

void register_slopes(OpRegistry& registry) { add_rows(registry, kSlopeRows); }

}  // namespace shardlab
