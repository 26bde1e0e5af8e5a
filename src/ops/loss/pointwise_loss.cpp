// Losses that compare two tensors element by element and then reduce, step for step on global
// values: a mean divides by the global count, however unevenly the elements are cut. Each is one
// kernel in the reference and recorded as one.
#include "ops/family.h"
#include "ops/loss/operands.h"

namespace shardlab {
namespace {

using namespace grad;

Results reduced_loss(const Expression& terms, const Argument& argument) {
  const LossReduction reduction = loss_reduction(argument);
  if (reduction == LossReduction::kNone) return {terms};
  const bool mean = reduction == LossReduction::kMean;
  return {terms.of(mean ? "aten::mean" : "aten::sum")};
}

/// Losses that the reference, when it reduces them, leaves in the memory of the terms.
Results loss_in_place_of(const Expression& terms, const Argument& reduction) {
  Results loss = reduced_loss(terms, reduction);
  const DTensor& result = loss[0].tensor();
  if (result.local().defined() && terms.value().local().defined()) {
    result.local().storage()->lie_in(terms.value().local().size_bytes());
  }
  return loss;
}

/// Number of elements whose losses share the gradient. In ATen's backward ops these are those of
/// the input, also where it stretches to its target.
double sharers(const Argument& reduction, const DTensor& terms) {
  return loss_reduction(reduction) == LossReduction::kMean ? static_cast<double>(terms.numel()) : 1;
}

/// The share of one element's loss in the gradient.
Expression share_of(Calls& calls, const DTensor& gradient, const Argument& reduction,
                    const DTensor& terms) {
  return Expression(calls, gradient) / sharers(reduction, terms);
}

/// A gradient in the dtype of its tensor.
Argument like_input(const Expression& gradient, const Argument& input) {
  return gradient.to(input.tensor().dtype());
}

Expression expression(Calls& calls, const Argument& tensor) { return {calls, tensor.tensor()}; }

/// Truth values combined with floats are 0 and 1.
Expression difference_of(Calls& calls, const Argument& self, const Argument& target) {
  const Expression x = expression(calls, self), y = expression(calls, target);
  const DType of_x = x.value().dtype(), of_y = y.value().dtype();
  const auto beside = [](const Expression& one, DType own, DType other) {
    return own == DType::kBool && is_floating(other) ? one.to(other) : one;
  };
  const Expression left = beside(x, of_x, of_y), right = beside(y, of_y, of_x);
  const Expression difference = left - right;
  require_float("the loss", difference.value().dtype());
  return difference;
}

/// The slope of a loss of the difference: its width takes part up to `bound`, its sign beyond.
Expression bounded(const Expression& difference, double bound) {
  return difference.with("aten::clamp_min", -bound).with("aten::clamp_max", bound);
}

/// mse_loss(self, target, reduction)
Results mse_loss(Calls& calls, const Arguments& args) {
  const Expression difference = difference_of(calls, args[0], args[1]);
  return loss_in_place_of(difference.with("aten::pow.Tensor_Scalar", 2), args[2]);
}

/// mse_loss_backward(grad_output, self, target, reduction)
Results mse_loss_backward(Calls& calls, const Arguments& args) {
  const Expression difference = difference_of(calls, args[1], args[2]);
  const Expression slope = difference * (2.0 / sharers(args[3], args[1].tensor()));
  return {like_input((slope * expression(calls, args[0])), args[1])};
}

/// huber_loss(self, target, reduction, delta)
Results huber_loss(Calls& calls, const Arguments& args) {
  const double delta = args[3].to_double();
  if (!(delta > 0)) {
    fail(Fix{"give a delta above 0"}, "huber_loss: delta is {}, must be above 0", args[3].text());
  }
  const Expression width = difference_of(calls, args[0], args[1]).of("aten::abs");
  const Expression near = width * width * 0.5, far = (width - 0.5 * delta) * delta;
  require_float("huber_loss", args[0].tensor().dtype());
  return reduced_loss(width.lt(delta).choose(near, far).to(args[0].tensor().dtype()), args[2]);
}

/// huber_loss_backward(grad_output, self, target, reduction, delta)
Results huber_loss_backward(Calls& calls, const Arguments& args) {
  require_one_dtype("huber_loss_backward",
                    {{"self", args[1]}, {"grad_output", args[0]}, {"target", args[2]}});
  const Expression difference = difference_of(calls, args[1], args[2]);
  const Expression slope = bounded(difference, args[4].to_double());
  const Expression share = share_of(calls, args[0].tensor(), args[3], args[1].tensor());
  return {slope * share};
}

/// smooth_l1_loss(self, target, reduction, beta)
Results smooth_l1_loss(Calls& calls, const Arguments& args) {
  const double beta = args[3].to_double();
  if (beta < 0) {
    fail(Fix{"give a beta of at least 0"}, "smooth_l1_loss: beta is {}, must not be negative",
         args[3].text());
  }
  const Expression width = difference_of(calls, args[0], args[1]).of("aten::abs");
  if (beta == 0) return loss_in_place_of(width, args[2]);
  const Expression near = width.lt(beta), bent = width * width * 0.5 / beta;
  return loss_in_place_of(near.choose(bent, width - 0.5 * beta), args[2]);
}

/// smooth_l1_loss_backward(grad_output, self, target, reduction, beta)
Results smooth_l1_loss_backward(Calls& calls, const Arguments& args) {
  const double beta = args[4].to_double();
  const Expression difference = difference_of(calls, args[1], args[2]);
  const Expression slope =
      beta == 0 ? difference.of("aten::sgn") : bounded(difference, beta) / beta;
  const Expression share = share_of(calls, args[0].tensor(), args[3], args[1].tensor());
  return {like_input(slope * share, args[1])};
}

/// Operands that several steps read are reduced once.
Expression reduced_once(Calls& calls, const Argument& argument) {
  return {calls, grad::reduced(calls, argument.tensor())};
}

/// binary_cross_entropy(self, target, weight, reduction): logarithms end at -100.
Results binary_cross_entropy(Calls& calls, const Arguments& args) {
  const Expression x = reduced_once(calls, args[0]), target = reduced_once(calls, args[1]);
  if (x.value().dtype() != target.value().dtype()) {
    fail(Fix{"cast the target: target.to(x.dtype)"},
         "binary_cross_entropy: the target is {}, the input is {}; both must have one dtype",
         to_string(target.value().dtype()), to_string(x.value().dtype()));
  }
  constexpr double kLeast = -100;
  const Expression yes = x.of("aten::log").with("aten::clamp_min", kLeast);
  const Expression no = (-x).of("aten::log1p").with("aten::clamp_min", kLeast);
  Expression terms = ((target - 1.0) * no).minus(target * yes);
  if (args[2].is_tensor()) terms = terms * expression(calls, args[2]);
  return reduced_loss(terms, args[3]);
}

/// binary_cross_entropy_backward(grad_output, self, target, weight, reduction)
Results binary_cross_entropy_backward(Calls& calls, const Arguments& args) {
  require_one_dtype("binary_cross_entropy_backward",
                    {{"self", args[1]}, {"grad_output", args[0]}, {"target", args[2]}});
  const Expression x = reduced_once(calls, args[1]), target = reduced_once(calls, args[2]);
  const Expression spread = ((-x + 1.0) * x).with("aten::clamp_min", 1e-12);
  Expression slope = (x - target) / spread;
  if (args[3].is_tensor()) slope = slope * expression(calls, args[3]);
  return {slope * share_of(calls, args[0].tensor(), args[4], x)};
}

/// log(sigmoid(x)), without overflow.
Expression log_sigmoid(const Expression& x) {
  const Expression rest = (-x.of("aten::abs")).of("aten::exp").of("aten::log1p");
  return x.with("aten::clamp_max", 0) - rest;
}

/// binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction)
Results binary_cross_entropy_with_logits(Calls& calls, const Arguments& args) {
  require_widest("binary_cross_entropy_with_logits", args[1].tensor(), args[0].tensor());
  const Expression x = reduced_once(calls, args[0]), target = reduced_once(calls, args[1]);
  Expression chance = log_sigmoid(x);
  if (args[3].is_tensor()) chance = ((expression(calls, args[3]) - 1.0) * target + 1.0) * chance;
  Expression terms = (-target + 1.0) * x - chance;
  if (args[2].is_tensor()) terms = terms * expression(calls, args[2]);
  return reduced_loss(terms, args[4]);
}

// A loss of the difference: the gradient of one side is the negative of the other's.
template <FixedText backward>
Gradients grad_of_difference(const GradContext& context) {
  const DTensor& self = input(context, 0);
  const DTensor& target = input(context, 1);
  Arguments args{context.grads[0]};
  args.insert(args.end(), context.inputs.begin(), context.inputs.end());
  if (self.shape() != target.shape()) {
    const ArgumentList whole =
        context.calls("broadcast_tensors", {ArgumentList{self, target}})[0].list();
    args[1] = whole[0];
    args[2] = whole[1];
  }
  const DTensor slope = context.calls.one(backward, std::move(args));
  return each(
      context, [&] { return slope; }, [&] { return negate(context.calls, slope); });
}

Gradients grad_binary_cross_entropy(const GradContext& context) {
  Calls& calls = context.calls;
  const Argument& reduction = context.inputs[3];
  Gradients gradients(3);
  if (context.needs(0)) {
    gradients[0] = calls.one(
        "aten::binary_cross_entropy_backward",
        {context.grads[0], context.inputs[0], context.inputs[1], context.inputs[2], reduction});
  }
  if (context.needs(1)) {
    const Expression x(calls, input(context, 0));
    Expression slope = (-x).of("aten::log1p").minus(x.of("aten::log"));
    if (context.inputs[2].is_tensor()) slope = slope * Expression(calls, input(context, 2));
    const Expression share = share_of(calls, context.grads[0], reduction, x);
    gradients[1] = sum_to(calls, slope * share, input(context, 1));
  }
  return gradients;
}

Gradients grad_cross_entropy_of_logits(const GradContext& context) {
  Calls& calls = context.calls;
  const Expression x(calls, input(context, 0)), target(calls, input(context, 1));
  Expression share = share_of(calls, context.grads[0], context.inputs[4], x);
  if (context.inputs[2].is_tensor()) share = share * Expression(calls, input(context, 2));
  const bool positive = context.inputs[3].is_tensor();
  Gradients gradients(4);
  if (context.needs(0)) {
    Expression slope = x.of("aten::sigmoid") - target;
    if (positive) {
      const Expression weighted = Expression(calls, input(context, 3)) * target;
      slope = (weighted - target + 1.0).times(x.of("aten::sigmoid")) - weighted;
    }
    gradients[0] = sum_to(calls, slope * share, x);
  }
  if (context.needs(1)) {
    Expression slope = -x;
    if (positive) {
      const Expression more = Expression(calls, input(context, 3)) - 1.0;
      slope = slope - more * log_sigmoid(x);
    }
    gradients[1] = sum_to(calls, slope * share, target);
  }
  return gradients;
}

constexpr const char* kLossWhy = "a mean over the whole tensor";
constexpr const char* kCountWhy = "divides by the global count";

// Sorted by name.
// clang-format off
constexpr Row kPointwiseLossRows[] = {
    composite("binary_cross_entropy"_op, binary_cross_entropy,
              {grad_binary_cross_entropy, "self target weight !weight"}, kLossWhy),
    composite("binary_cross_entropy_backward"_op, binary_cross_entropy_backward, kCountWhy),
    composite("binary_cross_entropy_with_logits"_op, binary_cross_entropy_with_logits,
              {grad_cross_entropy_of_logits, "self target weight pos_weight !weight !pos_weight"},
              kLossWhy),
    composite("huber_loss"_op, huber_loss,
              {grad_of_difference<"aten::huber_loss_backward">, "self target"}, kLossWhy),
    composite("huber_loss_backward"_op, huber_loss_backward, kCountWhy),
    composite("mse_loss"_op, mse_loss,
              {grad_of_difference<"aten::mse_loss_backward">, "self target"}, kLossWhy),
    composite("mse_loss_backward"_op, mse_loss_backward, kCountWhy),
    composite("smooth_l1_loss"_op, smooth_l1_loss,
              {grad_of_difference<"aten::smooth_l1_loss_backward">, "self target"}, kLossWhy),
    composite("smooth_l1_loss_backward"_op, smooth_l1_loss_backward, kCountWhy),
};
// clang-format on

}  // namespace

void require_widest(std::string_view op, const DTensor& widest, const DTensor& other) {
  const Dims &most = widest.shape(), &shape = other.shape();
  bool fits = shape.size() <= most.size();
  for (std::size_t i = 1; fits && i <= shape.size(); ++i) {
    const std::int64_t size = shape[shape.size() - i];
    fits = size == 1 || size == most[most.size() - i];
  }
  if (fits) return;
  fail(Fix{"give the input and its target one shape"},
       "{}: [{}] does not stretch to [{}], which the losses have to fit into", op,
       text_of_list(shape, ", "), text_of_list(most, ", "));
}

void register_pointwise_loss(OpRegistry& registry) { add_rows(registry, kPointwiseLossRows); }

}  // namespace shardlab
