// All alignments of a sequence of labels with steps, by sums in logarithms from the first step on
// (alpha) and from the last one back (beta). Labels are separated by blanks; a step keeps its
// place, moves to the next one, or leaves out a blank between two different labels. A batch is
// walked together: a place outside of a sequence has -inf, and a sequence that ends before the
// others starts its way back at its own end.
#include "ops/loss/ctc.h"

#include <algorithm>
#include <limits>

#include "ops/family.h"

namespace shardlab {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

Dims lengths_of(Calls& calls, const Argument& given) {
  if (!given.is_tensor()) return ints_of(given);
  const DTensor& x = given.tensor();
  if (x.ndim() == 0) return Dims{integer_in(calls, x)};
  Dims lengths;
  for (std::int64_t i = 0; i < x.shape()[0]; ++i) {
    lengths.push_back(integer_in(calls, calls.one("aten::select.int", {x, 0, i})));
  }
  return lengths;
}

/// Whole numbers as a tensor on the mesh of `like`.
DTensor row_of(Calls& calls, const DTensor& like, const Dims& numbers) {
  ArgumentList each;
  for (const std::int64_t number : numbers) {
    each.emplace_back(calls.one("aten::new_full", {like, Dims{}, number, DType::kI64}));
  }
  return calls.one("aten::stack", {each, 0});
}

/// A batch of sequences: the labels with blanks between them, and their log-probabilities at each
/// step.
class Sequences {
 public:
  /// args: log_probs, targets, input_lengths, target_lengths
  Sequences(Calls& calls, std::span<const Argument> args, std::int64_t blank)
      : calls_(calls),
        given_(args[0].tensor()),
        steps_of_(lengths_of(calls, args[2])),
        labels_of_(lengths_of(calls, args[3])) {
    require_float("_ctc_loss", args[0].tensor().dtype());
    check(args[1].tensor(), blank);
    for (const std::int64_t count : labels_of_) most_ = std::max(most_, count);
    width_ = 2 * most_ + 1;
    last_ = column(labels_of_, 2);
    places_ = counted(calls, given_, width_);
    labels_ = with_blanks(args[1].tensor(), blank);
    const DTensor rows = calls.one("aten::permute", {grad::reduced(calls, given_), Dims{1, 0, 2}});
    const DTensor index = calls.one("aten::unsqueeze", {labels_, 1});
    read_ =
        calls.one("aten::gather",
                  {rows, 2, calls.one("aten::expand", {index, Dims{batch(), steps(), width_}})});
    const Expression outside(calls, calls.one("aten::unsqueeze", {beyond_end(), 1}));
    emitted_ = expression(read_).filled(outside, kMinusInfinity);
    const Expression ahead = expression(shifted(labels_, 2, -1));
    // No step leaves out a label, or the blank between two equal ones.
    stays_ = ahead.eq(labels_);
  }

  std::int64_t steps() const { return given_.shape()[0]; }
  std::int64_t batch() const { return given_.shape()[1]; }
  const DTensor& labels() const { return labels_; }
  /// The log-probabilities of the labels at each step, [batch, steps, places].
  const DTensor& read() const { return read_; }

  /// Log of the probability that reaches each place up to each step, [batch, steps, places].
  DTensor alphas() const {
    const Expression late = expression(places_).gt(1);
    DTensor alpha = at_step(0).filled(late, kMinusInfinity);
    ArgumentList all{alpha};
    for (std::int64_t t = 1; t < steps(); ++t) {
      const Expression leap =
          expression(shifted(alpha, 2)).filled(expression(stays_), kMinusInfinity);
      alpha = joined(alpha, shifted(alpha, 1), leap, t);
      all.emplace_back(alpha);
    }
    return calls_.one("aten::stack", {all, 1});
  }

  /// Log of the probability that leads from each place at each step to the end, the step's own
  /// share included.
  DTensor betas() const {
    const Expression last = expression(last_);
    const Expression distance = last.minus(expression(places_));
    const Expression no_end = distance.lt(0) || distance.gt(1);
    // Whether a leap is allowed depends on the place where it ends.
    const Expression stays = expression(shifted(stays_, -2, 1)).to(DType::kBool);
    const DTensor ends = column(steps_of_, 1);
    DTensor beta = calls_.one("aten::full_like", {at_step(0), kMinusInfinity});
    ArgumentList all;
    for (std::int64_t t = steps() - 1; t >= 0; --t) {
      const Expression leap = expression(shifted(beta, -2)).filled(stays, kMinusInfinity);
      const Expression onward = expression(joined(beta, shifted(beta, -1), leap, t));
      const Expression first = at_step(t).filled(no_end, kMinusInfinity);
      beta = expression(ends).eq(t + 1).choose(first, onward);
      all.emplace_back(beta);
    }
    std::reverse(all.begin(), all.end());
    return calls_.one("aten::stack", {all, 1});
  }

  /// Minus the log of the sum of the alphas at the last label and at the blank behind it.
  DTensor losses(const DTensor& alphas) const {
    Dims last_step, before;
    for (const std::int64_t count : steps_of_)
      last_step.push_back(std::max<std::int64_t>(count - 1, 0));
    for (const std::int64_t count : labels_of_)
      before.push_back(std::max<std::int64_t>(2 * count - 1, 0));
    const DTensor when = calls_.one("aten::unsqueeze", {column(last_step, 1), 2});
    const DTensor at_end = calls_.one(
        "aten::gather", {alphas, 1, calls_.one("aten::expand", {when, Dims{batch(), 1, width_}})});
    const DTensor rows = calls_.one("aten::squeeze.dim", {at_end, 1});
    const auto at = [&](const DTensor& place) {
      return expression(calls_.one("aten::gather", {rows, 1, place}));
    };
    const Expression none = expression(column(labels_of_, 1)).eq(0);
    const Expression behind = at(last_);
    const Expression label = at(column(before, 1)).filled(none, kMinusInfinity);
    const Expression log = behind.with("aten::logaddexp", label);
    // Without a step only a sequence without a label has an alignment.
    const Expression empty = expression(column(steps_of_, 1)).eq(0);
    const Expression loss = (-log).filled(empty && none, 0).filled(empty && !none, -kMinusInfinity);
    return calls_.one("aten::squeeze.dim", {loss, 1});
  }

  /// Mask of the steps of the batch beyond a sequence's end, [steps, batch, 1].
  DTensor steps_beyond() const {
    const DTensor row = row_of(calls_, given_, steps_of_);
    const DTensor time = calls_.one("aten::unsqueeze", {counted(calls_, given_, steps()), 1});
    return calls_.one("aten::unsqueeze", {expression(time).ge(row), 2});
  }

 private:
  Expression expression(const DTensor& x) const { return {calls_, x}; }
  Expression at_step(std::int64_t t) const {
    return expression(calls_.one("aten::select.int", {emitted_, 1, t}));
  }

  void check(const DTensor& targets, std::int64_t blank) const {
    const bool shaped = given_.ndim() == 3 && (targets.ndim() == 1 || targets.ndim() == 2);
    const auto sequences = shaped ? given_.shape()[1] : 0;
    const bool counted = static_cast<std::int64_t>(steps_of_.size()) == sequences &&
                         static_cast<std::int64_t>(labels_of_.size()) == sequences && sequences > 0;
    if (!shaped || !counted || given_.shape()[0] == 0 || !is_integral(targets.dtype())) {
      fail(
          Fix{"give log_probs [steps, batch, classes], targets of whole numbers [batch, labels] or "
              "one after another, and two lengths for each sequence"},
          "ctc_loss: {} lengths of steps and {} of labels for a batch of {}, targets of {} dims",
          steps_of_.size(), labels_of_.size(), sequences, targets.ndim());
    }
    std::int64_t labels = 0, most = 0;
    for (const std::int64_t count : labels_of_) labels += count, most = std::max(most, count);
    const bool fit =
        targets.ndim() == 1 ? labels == targets.shape()[0] : most <= targets.shape()[1];
    const auto wrong = [&](std::int64_t count) { return count < 0 || count > given_.shape()[0]; };
    if (!fit || std::ranges::any_of(steps_of_, wrong) || std::ranges::min(labels_of_) < 0) {
      fail(Fix{"give lengths of what is there"},
           "ctc_loss: a length is negative or too large for {} steps and {} labels",
           given_.shape()[0], targets.numel());
    }
    if (blank < 0 || blank >= given_.shape()[2]) {
      fail(Fix{"name a class by its number"},
           "ctc_loss: blank is {}; it must be the number of one of {} classes", blank,
           given_.shape()[2]);
    }
  }

  /// [batch, 1]
  DTensor column(const Dims& numbers, std::int64_t times) const {
    Dims scaled;
    for (const std::int64_t number : numbers) scaled.push_back(number * times);
    return calls_.one("aten::unsqueeze", {row_of(calls_, given_, scaled), 1});
  }

  DTensor beyond_end() const { return expression(places_).gt(last_); }

  /// Each place's value `by` places later, `fill` where there was none: a whole number for
  /// integers.
  DTensor shifted(const DTensor& x, std::int64_t by, double fill = kMinusInfinity) const {
    const std::int64_t kept = width_ - std::abs(by);
    const bool whole = is_integral(x.dtype());
    const Argument number = whole ? Argument(static_cast<std::int64_t>(fill)) : Argument(fill);
    if (kept <= 0) return calls_.one("aten::full_like", {x, number});
    const std::int64_t first = by < 0 ? -by : 0;
    const DTensor part = calls_.one("aten::slice.Tensor", {x, 1, first, first + kept});
    const Dims pads = by < 0 ? Dims{0, -by} : Dims{by, 0};
    return calls_.one("aten::constant_pad_nd", {part, pads, number});
  }

  DTensor joined(const DTensor& kept, const DTensor& next, const DTensor& leap,
                 std::int64_t t) const {
    const Expression two = expression(kept).with("aten::logaddexp", next);
    const Expression three = two.with("aten::logaddexp", leap);
    return three.plus(at_step(t));
  }

  /// [batch, labels]: those of 1 dim follow one another.
  DTensor by_sequence(const DTensor& targets) const {
    if (targets.ndim() == 2) return calls_.one("aten::slice.Tensor", {targets, 1, 0, most_});
    ArgumentList rows;
    std::int64_t first = 0;
    for (const std::int64_t count : labels_of_) {
      const DTensor row = calls_.one("aten::slice.Tensor", {targets, 0, first, first + count});
      rows.emplace_back(calls_.one("aten::constant_pad_nd", {row, Dims{0, most_ - count}, 0}));
      first += count;
    }
    return calls_.one("aten::stack", {rows, 0});
  }

  DTensor with_blanks(const DTensor& targets, std::int64_t blank) const {
    const DTensor one =
        calls_.one("aten::new_full", {given_, Dims{batch(), 1}, blank, DType::kI64});
    if (most_ == 0) return one;
    const Expression known = expression(by_sequence(targets)).to(DType::kI64);
    const Expression place = expression(counted(calls_, given_, most_));
    const DTensor labels = known.filled(place.ge(column(labels_of_, 1)), blank);
    const DTensor blanks = calls_.one("aten::full_like", {labels, blank});
    const DTensor pairs = calls_.one("aten::stack", {ArgumentList{blanks, labels}, 2});
    const DTensor flat = calls_.one("aten::reshape", {pairs, Dims{batch(), 2 * most_}});
    return calls_.one("aten::cat", {ArgumentList{flat, one}, 1});
  }

  Calls& calls_;
  DTensor given_;  // [steps, batch, classes]
  Dims steps_of_, labels_of_;
  std::int64_t most_ = 0, width_ = 1;
  DTensor last_;    // [batch, 1]: the place of the blank behind the last label
  DTensor places_;  // 0, 1, .., width - 1
  DTensor labels_;  // [batch, places]
  DTensor stays_;   // [batch, places]: the place two before has the same label
  DTensor read_, emitted_;
};

grad::Gradients grad_ctc(const GradContext& context, const char* backward) {
  const Arguments& inputs = context.inputs;
  if (!context.grads[0].defined()) return {};
  return {
      context.calls.one(backward, {context.grads[0], inputs[0], inputs[1], inputs[2], inputs[3],
                                   context.outputs[0], context.outputs[1], inputs[4], inputs[5]})};
}

}  // namespace

Results ctc_alignments(Calls& calls, const Arguments& args) {
  const Sequences sequences(calls, {args.data(), 4}, args[4].to_int());
  const DTensor alphas = sequences.alphas();
  return {sequences.losses(alphas), alphas};
}

// The log-probabilities count as those of a softmax, as in the reference: the incoming gradient
// times their probabilities, less the share of the alignments that have the class at the step.
Results ctc_alignments_backward(Calls& calls, const Arguments& args) {
  const DTensor& given = args[1].tensor();
  const Sequences sequences(calls, {args.data() + 1, 4}, args[7].to_int());
  const auto each = [&](const DTensor& x) {  // [batch, 1, 1]
    const Dims shape{x.numel(), 1, 1};
    return Expression(calls, calls.one("aten::reshape", {x, shape}));
  };
  const Expression loss = each(args[5].tensor());
  const Expression both = Expression(calls, args[6].tensor()).plus({calls, sequences.betas()});
  const Expression share = both.minus({calls, sequences.read()}).plus(loss).of("aten::exp");
  const DTensor labels = calls.one("aten::unsqueeze", {sequences.labels(), 1});
  const DTensor index = calls.one("aten::expand", {labels, share.value().shape()});
  const Dims rows{sequences.batch(), sequences.steps(), given.shape()[2]};
  const DTensor none = calls.one("aten::new_zeros", {given, rows});
  const DTensor shares = calls.one("aten::scatter_add", {none, 2, index, share});
  const DTensor turned = calls.one("aten::permute", {grad::reduced(calls, given), Dims{1, 0, 2}});
  const Expression slope = Expression(calls, turned).of("aten::exp").minus({calls, shares});
  const Expression impossible = loss.eq(-kMinusInfinity);
  const double there = args[8].to_bool() ? 0 : std::numeric_limits<double>::quiet_NaN();
  const Expression flow = each(args[0].tensor());
  const Expression whole = slope.filled(impossible, there).times(flow).filled(impossible, there);
  const DTensor by_step = calls.one("aten::permute", {whole, Dims{1, 0, 2}});
  return {Expression(calls, by_step).filled({calls, sequences.steps_beyond()}, 0)};
}

Results ctc_loss(Calls& calls, const Arguments& args) {
  const bool batched = args[0].tensor().ndim() == 3;
  const Argument log_probs =
      batched ? args[0] : Argument(calls.one("aten::unsqueeze", {args[0], 1}));
  const char* op = args[2].is_tensor() ? "aten::_ctc_loss.Tensor" : "aten::_ctc_loss";
  Expression loss(calls,
                  calls(op, {log_probs, args[1], args[2], args[3], args[4], args[6]})[0].tensor());
  if (args[6].to_bool()) loss = loss.filled(loss.eq(-kMinusInfinity), 0);
  switch (loss_reduction(args[5])) {
    case LossReduction::kNone:
      return {batched ? loss.value() : calls.one("aten::squeeze.dim", {loss, 0})};
    case LossReduction::kSum:
      return {loss.of("aten::sum")};
    default:
      break;
  }
  Dims counts = lengths_of(calls, args[3]);
  for (std::int64_t& count : counts) count = std::max<std::int64_t>(count, 1);
  const Expression share = loss / Expression(calls, row_of(calls, args[0].tensor(), counts));
  return {share.of("aten::mean")};
}

grad::Gradients grad_ctc_of_lists(const GradContext& context) {
  return grad_ctc(context, "aten::_ctc_loss_backward");
}
grad::Gradients grad_ctc_of_tensors(const GradContext& context) {
  return grad_ctc(context, "aten::_ctc_loss_backward.Tensor");
}

}  // namespace shardlab
