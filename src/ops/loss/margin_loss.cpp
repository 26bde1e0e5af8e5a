// Losses over margins and classes that the reference takes apart: formulas over other ops, reduced
// at the end.
#include <algorithm>
#include <numbers>
#include <optional>

#include "ops/family.h"
#include "ops/loss/ctc.h"
#include "ops/loss/operands.h"

namespace shardlab {
namespace {

Expression expression_of(Calls& calls, const Argument& tensor) { return {calls, tensor.tensor()}; }

Results reduced(const Expression& terms, const Argument& argument) {
  const LossReduction reduction = loss_reduction(argument);
  if (reduction == LossReduction::kNone) return {terms};
  return {terms.of(reduction == LossReduction::kMean ? "aten::mean" : "aten::sum")};
}

/// soft_margin_loss(self, target, reduction)
Results soft_margin_loss(Calls& calls, const Arguments& args) {
  const Expression x = expression_of(calls, args[0]), target = expression_of(calls, args[1]);
  require_float("soft_margin_loss", x.value().dtype());
  require_widest("soft_margin_loss", x, target);
  const Expression sign =
      target.value().dtype() == DType::kBool ? target.to(x.value().dtype()) : target;
  const Expression loss = (-sign * x).of("aten::exp").of("aten::log1p");
  return reduced(loss.to(x.value().dtype()), args[2]);
}

/// soft_margin_loss_backward(grad_output, self, target, reduction)
Results soft_margin_loss_backward(Calls& calls, const Arguments& args) {
  const Expression x = expression_of(calls, args[1]), sign = -expression_of(calls, args[2]);
  require_float("soft_margin_loss_backward", x.value().dtype());
  const Expression odds = (sign * x).of("aten::exp");
  const bool mean = loss_reduction(args[3]) == LossReduction::kMean;
  // ATen counts those of the input, also where it stretches to its target.
  const double share = mean ? 1.0 / static_cast<double>(x.value().numel()) : 1.0;
  const Expression slope = sign * (odds / (odds + 1.0)) * share;
  return {(slope * expression_of(calls, args[0])).to(x.value().dtype())};
}

/// kl_div(self, target, reduction, *, log_target): self holds logarithms, and target if log_target.
Results kl_div(Calls& calls, const Arguments& args) {
  const Expression x = expression_of(calls, args[0]), target = expression_of(calls, args[1]);
  require_float("kl_div", x.value().dtype());
  if (args[3].to_bool()) {
    const Expression share = target.of("aten::exp");
    return reduced(share * (target - x), args[2]);
  }
  const Expression shared = target * x;
  return reduced(target.with("aten::xlogy.Tensor", target) - shared, args[2]);
}

/// l1_loss(self, target, reduction)
Results l1_loss(Calls& calls, const Arguments& args) {
  const Expression x = expression_of(calls, args[0]), target = expression_of(calls, args[1]);
  return reduced((x - target).of("aten::abs"), args[2]);
}

/// poisson_nll_loss(input, target, log_input, full, eps, reduction)
Results poisson_nll_loss(Calls& calls, const Arguments& args) {
  const Expression x = expression_of(calls, args[0]), target = expression_of(calls, args[1]);
  const bool in_logs = args[2].to_bool();
  const Expression logs = in_logs ? x : (x + args[4].to_double()).of("aten::log");
  const Expression shared = target * logs;
  Expression loss = (in_logs ? x.of("aten::exp") : x) - shared;
  if (args[3].to_bool()) {  // Stirling's terms for a factorial
    const Expression width = (target * (2 * std::numbers::pi)).of("aten::log") * 0.5;
    const Expression term = target * target.of("aten::log") - target + width;
    loss = loss + term.filled(target.le(1), 0);
  }
  return reduced(loss, args[5]);
}

void require_equal_ndim(const Arguments& args, std::string_view taken, std::string_view call) {
  const auto ndim = [&](std::size_t i) { return args[i].tensor().ndim(); };
  if (ndim(1) == ndim(0) && ndim(2) == ndim(0)) return;
  fail(Fix{fmt::format("give three tensors of as many dims: {}", call)},
       "{} of as many dims, not {}, {} and {}", taken, ndim(0), ndim(1), ndim(2));
}

/// triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction)
Results triplet_margin_loss(Calls& calls, const Arguments& args) {
  require_equal_ndim(args, "triplet_margin_loss takes an anchor, positive and negative",
                     "positive.unsqueeze(0)");
  const auto apart = [&](std::size_t a, std::size_t b) -> Expression {
    return {calls, calls.one("aten::pairwise_distance", {args[a], args[b], args[4], args[5]})};
  };
  const Expression near = apart(0, 1);
  Expression far = apart(0, 2);
  if (args[6].to_bool()) far = far.with("aten::minimum", apart(1, 2));
  return reduced((near + args[3].to_double() - far).with("aten::clamp_min", 0), args[7]);
}

// Losses of the angle between vectors.

/// cosine_embedding_loss(input1, input2, target, margin, reduction): targets are 1 and -1
Results cosine_embedding_loss(Calls& calls, const Arguments& args) {
  constexpr double kLeast = 1e-12;
  const Expression a = expression_of(calls, args[0]), b = expression_of(calls, args[1]),
                   target = expression_of(calls, args[2]);
  const Dims last{static_cast<std::int64_t>(target.value().ndim())};
  const auto sum = [&](const Expression& terms) -> Expression {
    return {calls, calls.one("aten::sum.dim_IntList", {terms, last})};
  };
  const Expression shared = sum(a * b), size = sum(a * a) + kLeast;
  const Expression sizes = size * (sum(b * b) + kLeast);
  const Expression cosine = shared / sizes.of("aten::sqrt");
  const Expression alike = -cosine + 1.0,
                   apart = (cosine - args[3].to_double()).with("aten::clamp_min", 0);
  const Expression none(calls, calls.one("aten::zeros_like", {cosine}));
  const Expression of_alike = target.eq(1).choose(alike, none);
  return reduced(of_alike + target.eq(-1).choose(apart, none), args[4]);
}

/// cosine_similarity(x1, x2, dim, eps)
Results cosine_similarity(Calls& calls, const Arguments& args) {
  const Results both = calls("aten::broadcast_tensors", {ArgumentList{args[0], args[1]}});
  const Dims dims{args[2].to_int()};
  const auto direction = [&](std::size_t i) -> Expression {
    const DTensor& x = both[0].list()[i].tensor();
    const DTensor norm = calls.one("aten::linalg_vector_norm", {x, 2, dims, true});
    // Raised to eps without a record: a small norm has the gradient of a norm.
    const DTensor least = calls.one("aten::clone", {grad::reduced(calls, norm)});
    calls("aten::clamp_min_", {grad::unrecorded(least), args[3]});
    const Expression whole(calls, x);
    return whole / Expression(calls, least);
  };
  const Expression first = direction(0), terms = first * direction(1);
  return {calls.one("aten::sum.dim_IntList", {terms, dims})};
}

/// Alike in both factors.
grad::Gradients grad_soft_margin_loss(const GradContext& context) {
  const auto slope = [&](std::size_t i) {
    return context.calls.one(
        "aten::soft_margin_loss_backward",
        {context.grads[0], context.inputs[i], context.inputs[1 - i], context.inputs[2]});
  };
  return grad::each(
      context, [&] { return slope(0); }, [&] { return slope(1); });
}

/// hinge_embedding_loss(self, target, margin, reduction): targets are 1 and -1
Results hinge_embedding_loss(Calls& calls, const Arguments& args) {
  const Expression x = expression_of(calls, args[0]), target = expression_of(calls, args[1]);
  const Expression short_of = (-x + args[2].to_double()).with("aten::clamp_min", 0);
  const Expression apart = short_of.filled(target.eq(1), 0), near = x.filled(target.eq(-1), 0);
  return reduced(apart + near, args[3]);
}

/// margin_ranking_loss(input1, input2, target, margin, reduction)
Results margin_ranking_loss(Calls& calls, const Arguments& args) {
  require_equal_ndim(args, "margin_ranking_loss takes inputs and a target", "target.flatten()");
  const Expression lead = expression_of(calls, args[0]).minus(expression_of(calls, args[1]));
  const Expression loss = -expression_of(calls, args[2]) * lead + args[3].to_double();
  return reduced(loss.with("aten::clamp_min", 0), args[4]);
}

// Losses of one class, or several, against all others. [samples, classes] or [classes].

struct Classes {
  Expression x, target;
  std::int64_t count;
  bool batch;
};

Classes classes_of(std::string_view op, Calls& calls, const Arguments& args) {
  DTensor x = args[0].tensor(), target = args[1].tensor();
  if (x.ndim() == 0) x = calls.one("aten::unsqueeze", {x, 0});
  const bool batch = x.ndim() == 2;
  if (x.ndim() > 2 || (batch && x.shape()[1] == 0)) {
    fail(Fix{"give a tensor of shape [samples, classes] or [classes]"},
         "{} takes scores of one or two dims and at least one class, not [{}]", op,
         text_of_list(x.shape(), ", "));
  }
  require_float(op, x.dtype());
  if (!batch) x = calls.one("aten::unsqueeze", {x, 0});
  while (!batch && target.ndim() < 2) target = calls.one("aten::unsqueeze", {target, 0});
  return {{calls, x}, {calls, target}, x.shape()[1], batch};
}

void require_targets(std::string_view op, const Classes& given, const Dims& shape) {
  const DTensor& target = given.target;
  if (target.shape() == shape && target.dtype() == DType::kI64) return;
  fail(Fix{fmt::format("give a target of shape [{}] and dtype i64", text_of_list(shape, ", "))},
       "{}: the target has shape [{}] and dtype {}; it must fit the scores [{}], in i64", op,
       text_of_list(target.shape(), ", "), to_string(target.dtype()),
       text_of_list(given.x.value().shape(), ", "));
}

/// Sums over classes of a sample are divided by their number; a mean is one over samples.
Results reduced_classes(Calls& calls, const Classes& given, const Expression& terms,
                        const Argument& reduction) {
  const Expression each = {calls, calls.one("aten::sum.dim_IntList",
                                            {terms / static_cast<double>(given.count), Dims{1}})};
  if (loss_reduction(reduction) != LossReduction::kNone) return reduced(each, reduction);
  return {given.batch ? each.value() : calls.one("aten::squeeze.dim", {each, 0})};
}

/// The distance by which each class is too near to the right one, and the weight of each sample.
struct Margins {
  Classes given;
  DTensor target;   // a column
  Expression gaps;  // 0 where a class is far enough
  double p;
  std::optional<Expression> weights;  // a column

  Expression weighted(const Expression& terms) const { return weights ? terms * *weights : terms; }
  /// Keeps the terms of all classes but the right one.
  Expression others(Calls& calls, const Expression& terms) const {
    return {calls, calls.one("aten::scatter.value", {terms, 1, target, 0})};
  }
};

/// (self, target, p, margin, weight, ..)
Margins margins_of(Calls& calls, const Arguments& args) {
  Classes given = classes_of("multi_margin_loss", calls, args);
  if (given.target.value().ndim() == 2) {
    given.target = {calls, calls.one("aten::squeeze.dim", {given.target, 0})};
  }
  require_targets("multi_margin_loss", given, Dims{given.x.value().shape()[0]});
  const double p = args[2].to_double();
  if (p != 1 && p != 2) {
    fail(Fix{"p is 1 or 2"}, "multi_margin_loss: p is {}; it must be 1 or 2", args[2].text());
  }
  const DTensor target = calls.one("aten::unsqueeze", {given.target, 1});
  const Expression right(calls, calls.one("aten::gather", {given.x, 1, target}));
  const Expression gaps = (given.x - right + args[3].to_double()).with("aten::clamp_min", 0);
  std::optional<Expression> column;
  if (args[4].is_tensor()) {
    const DTensor& weight = args[4].tensor();
    if (weight.numel() != given.count || weight.ndim() > 1) {
      fail(Fix{fmt::format("give a weight of shape [{}]", given.count)},
           "multi_margin_loss takes one weight for each of {} classes, not {}", given.count,
           weight.numel());
    }
    const DTensor line = calls.one("aten::reshape", {weight, Dims{given.count}});
    const Expression weights(calls, calls.one("aten::index_select", {line, 0, given.target}));
    column.emplace(calls, calls.one("aten::unsqueeze", {weights, 1}));
  }
  return {given, target, gaps, p, column};
}

/// multi_margin_loss(self, target, p, margin, weight, reduction)
Results multi_margin_loss(Calls& calls, const Arguments& args) {
  const Margins margins = margins_of(calls, args);
  const Expression terms = margins.p == 2 ? margins.gaps * margins.gaps : margins.gaps;
  const Expression others = margins.others(calls, margins.weighted(terms));
  return reduced_classes(calls, margins.given, others, args[5]);
}

/// The slopes of all classes times the gradient of the loss, which is one number or one for each
/// sample, as self.
Results slopes_of_classes(Calls& calls, const Classes& given, const Expression& slopes,
                          const DTensor& gradient, const Argument& reduction, const Dims& shape) {
  const bool mean = loss_reduction(reduction) == LossReduction::kMean;
  const std::int64_t samples = given.x.value().shape()[0];
  const std::int64_t shares = given.count * (mean ? std::max<std::int64_t>(samples, 1) : 1);
  const DTensor each =
      gradient.ndim() == 0 ? gradient : calls.one("aten::unsqueeze", {gradient, 1});
  const Expression result = (slopes / static_cast<double>(shares)).times({calls, each});
  return {calls.one("aten::reshape", {result, shape})};
}

// A slope has steps, and the side of a step follows from the whole score and not from its terms.

/// multi_margin_loss_backward(grad_output, self, target, p, margin, weight, reduction)
Results multi_margin_loss_backward(Calls& calls, const Arguments& args) {
  Arguments given(args.begin() + 1, args.end());
  given[0] = grad::reduced(calls, given[0].tensor());
  const Margins margins = margins_of(calls, given);
  const Expression near = margins.gaps.gt(0).to(margins.gaps.value().dtype());
  const Expression slopes = margins.p == 2 ? margins.gaps * 2.0 : near;
  const Expression others = margins.others(calls, margins.weighted(slopes));
  const DTensor sum = calls.one("aten::sum.dim_IntList", {others, Dims{1}, true});
  const Expression all(calls, calls.one("aten::scatter_add", {others, 1, margins.target,
                                                              calls.one("aten::neg", {sum})}));
  return slopes_of_classes(calls, margins.given, all, args[0].tensor(), args[6],
                           args[1].tensor().shape());
}

/// The labels of samples, which are those before the first -1, and the distance by which each class
/// that is none of them is too near to each.
struct Labels {
  Classes given;
  Expression places;  // 0 behind the labels
  DTensor is_target;  // of each class
  Expression gaps;    // [sample, label, class]: 0 where there is none, or it is far enough
};

/// (self, target, ..)
Labels labels_of(Calls& calls, const Arguments& args) {
  const Classes given = classes_of("multilabel_margin_loss_forward", calls, args);
  const Dims shape = given.x.value().shape();
  require_targets("multilabel_margin_loss_forward", given, shape);
  const Expression ended = {calls,
                            calls.one("aten::cumsum", {given.target.eq(-1).to(DType::kI64), 1})};
  const Expression ends = ended.gt(0);
  const Expression places = given.target.filled(ends, 0);
  // One column more than there are classes takes the labels that do not count.
  const Expression marked = given.target.filled(ends, static_cast<std::int64_t>(given.count));
  const DTensor none = calls.one("aten::new_zeros", {given.x, Dims{shape[0], given.count + 1}});
  const DTensor marks = calls.one("aten::scatter.value", {none, 1, marked, 1});
  const DTensor is_target = calls.one("aten::slice.Tensor", {marks, 1, 0, given.count});
  const Expression right(calls, calls.one("aten::gather", {given.x, 1, places}));
  const auto column = [&](const Expression& value, std::int64_t dim) -> Expression {
    return {calls, calls.one("aten::unsqueeze", {value, dim})};
  };
  const Expression gaps = column(-right + 1.0, 2).plus(column(given.x, 1));
  const Expression out_of_it = column(ends, 2) || column({calls, is_target}, 1).gt(0);
  return {given, places, is_target, gaps.with("aten::clamp_min", 0).filled(out_of_it, 0)};
}

/// multilabel_margin_loss_forward(self, target, reduction): output, is_target
Results multilabel_margin_loss(Calls& calls, const Arguments& args) {
  const Labels labels = labels_of(calls, args);
  const Expression each(calls, calls.one("aten::sum.dim_IntList", {labels.gaps, Dims{1}}));
  Results results = reduced_classes(calls, labels.given, each, args[2]);
  results.emplace_back(calls.one("aten::reshape", {labels.is_target, args[1].tensor().shape()}));
  return results;
}

/// multilabel_margin_loss_backward(grad_output, self, target, reduction, is_target): the classes
/// that are labels follow from target once more.
Results multilabel_margin_loss_backward(Calls& calls, const Arguments& args) {
  const Labels labels = labels_of(calls, {grad::reduced(calls, args[1].tensor()), args[2]});
  const Expression near = labels.gaps.gt(0).to(labels.gaps.value().dtype());
  const auto sum = [&](std::int64_t dim) {
    return calls.one("aten::sum.dim_IntList", {near, Dims{dim}});
  };
  const Expression slopes(
      calls,
      calls.one("aten::scatter_add", {sum(1), 1, labels.places, calls.one("aten::neg", {sum(2)})}));
  return slopes_of_classes(calls, labels.given, slopes, args[0].tensor(), args[3],
                           args[1].tensor().shape());
}

constexpr const char* kAlignments = "sums of logarithms, step by step";

// Sorted by name.
// clang-format off
constexpr Row kMarginLossRows[] = {
    composite("_ctc_loss"_op, ctc_alignments,
              {grad_ctc_of_lists, "log_probs targets result0 result1 !result1"}, kAlignments),
    composite("_ctc_loss.Tensor"_op, ctc_alignments,
              {grad_ctc_of_tensors,
               "log_probs targets input_lengths target_lengths result0 result1 !result1"},
              kAlignments, kDataDependent),
    composite("_ctc_loss_backward"_op, ctc_alignments_backward, kAlignments, kNotDifferentiable),
    composite("_ctc_loss_backward.Tensor"_op, ctc_alignments_backward, kAlignments,
              kDataDependent | kNotDifferentiable),
    composite("cosine_embedding_loss"_op, cosine_embedding_loss,
              "products of vectors and a reduction"),
    composite("cosine_similarity"_op, cosine_similarity, "a sum of products"),
    composite("ctc_loss.IntList"_op, ctc_loss, "_ctc_loss and a reduction"),
    composite("ctc_loss.Tensor"_op, ctc_loss, "_ctc_loss and a reduction", kDataDependent),
    composite("hinge_embedding_loss"_op, hinge_embedding_loss, "clamp_min and a reduction"),
    composite("kl_div"_op, kl_div, "xlogy and a reduction"),
    composite("l1_loss"_op, l1_loss, "abs and a reduction"),
    composite("margin_ranking_loss"_op, margin_ranking_loss, "clamp_min and a reduction"),
    composite("multi_margin_loss"_op, multi_margin_loss, "gather and clamp_min"),
    composite("multi_margin_loss_backward"_op, multi_margin_loss_backward, "scatter_add of slopes"),
    composite("multilabel_margin_loss"_op, result_of<"multilabel_margin_loss_forward", 0>,
              "multilabel_margin_loss_forward"),
    composite("multilabel_margin_loss_backward"_op, multilabel_margin_loss_backward,
              "scatter_add of slopes"),
    composite("multilabel_margin_loss_forward"_op, multilabel_margin_loss, "gather and clamp_min"),
    composite("nll_loss"_op, result_of<"nll_loss_forward", 0>, "nll_loss_forward"),
    composite("poisson_nll_loss"_op, poisson_nll_loss, "pointwise, and a reduction"),
    composite("soft_margin_loss"_op, soft_margin_loss, {grad_soft_margin_loss, "self target"},
              "log1p and a reduction"),
    composite("soft_margin_loss_backward"_op, soft_margin_loss_backward, "pointwise"),
    composite("triplet_margin_loss"_op, triplet_margin_loss, "distances and clamp_min"),
};
// clang-format on

}  // namespace

void register_margin_loss(OpRegistry& registry) { add_rows(registry, kMarginLossRows); }

}  // namespace shardlab
