// Losses over classes. The class dim stays whole; samples may be sharded, and a summed loss adds up
// over the ranks. A mean of unequal shares does not, so it gathers.
#include "ops/family.h"

namespace shardlab {
namespace {

using namespace grad;

using Rows = std::vector<RuleRow>;

void require_class_numbers(DType dtype) {
  if (dtype == DType::kI64 || dtype == DType::kU8) return;
  fail(Fix{"cast the target: y.long()"}, "nll_loss takes classes as i64 or u8, not as {}",
       to_string(dtype));
}

/// self [samples, classes] or [classes], target [samples] or []
void require_classes(const TensorMeta& self, const TensorMeta& target, const TensorMeta* weight) {
  const std::size_t ndim = self.shape.size();
  if (ndim < 1 || ndim > 2) {
    fail(Fix{"make them [samples, classes]: x.flatten(0, -2)"},
         "nll_loss takes log-probabilities of 1 or 2 dims, not {}", ndim);
  }
  require_class_numbers(target.dtype);
  const std::int64_t samples = ndim == 1 ? 1 : self.shape[0];
  const bool fits = target.shape.size() <= 1 && product(target.shape) == samples;
  if (!fits) {
    fail(Fix{fmt::format("give a target of shape [{}]", samples)},
         "nll_loss takes one target per sample: there are {} samples and {} targets", samples,
         product(target.shape));
  }
  if (weight != nullptr && product(weight->shape) != self.shape.back()) {
    fail(Fix{fmt::format("give a weight of shape [{}]", self.shape.back())},
         "nll_loss takes one weight per class: there are {} classes and {} weights",
         self.shape.back(), product(weight->shape));
  }
}

/// nll_loss_forward(self, target, weight, reduction, ignore_index): output, total_weight
OutputMetas meta_nll_loss(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  require_classes(self, *args.tensor(1), args.tensor(2));
  check_argument_dtype(args, 2, 0);
  Dims shape;
  if (loss_reduction(args[3]) == LossReduction::kNone && self.shape.size() == 2) {
    shape.push_back(self.shape[0]);
  }
  return {{contiguous_meta(shape, self.dtype)}, {contiguous_meta(Dims{}, self.dtype)}};
}

/// nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight)
OutputMetas meta_nll_loss_backward(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(1);
  require_classes(self, *args.tensor(2), args.tensor(3));
  for (const std::size_t same : {0, 3, 6}) check_argument_dtype(args, same, 1);
  const bool each = loss_reduction(args[4]) == LossReduction::kNone && self.shape.size() == 2;
  const std::int64_t gradients = product(args.tensor(0)->shape);
  const std::int64_t wanted = each ? self.shape[0] : 1;
  if (gradients != wanted || product(args.tensor(6)->shape) != 1) {
    fail(Fix{"pass the gradient of the loss, and the total weight that nll_loss_forward gave"},
         "nll_loss_backward takes {} gradients and one total weight, not {}, {}", wanted, gradients,
         product(args.tensor(6)->shape));
  }
  return {{contiguous_meta(self.shape, self.dtype)}};
}

/// self [samples, classes, places..], target [samples, places..]
void require_places(const OpDescriptor& op, const TensorMeta& self, const TensorMeta& target,
                    const TensorMeta* weight) {
  Dims places = self.shape;
  if (places.size() > 2) places.erase(1);
  if (self.shape.size() < 3 || places != target.shape) {
    fail(Fix{"leave the dim of the classes, dim 1, out of the target"},
         "{}: target has the shape [{}], must have one class per place: [{}]", op.name(),
         text_of_list(target.shape, ", "), text_of_list(places, ", "));
  }
  if (weight != nullptr && product(weight->shape) != self.shape[1]) {
    fail(Fix{fmt::format("give a weight of shape [{}]", self.shape[1])},
         "{} takes one weight per class: there are {} classes and {} weights", op.name(),
         self.shape[1], product(weight->shape));
  }
}

/// nll_loss2d_forward(self, target, weight, reduction, ignore_index): output, total_weight
OutputMetas meta_nll_loss_of_places(const MetaArgs& args) {
  const TensorMeta &self = *args.tensor(0), &target = *args.tensor(1);
  require_places(args.op(), self, target, args.tensor(2));
  check_argument_dtype(args, 2, 0);
  const bool each = loss_reduction(args[3]) == LossReduction::kNone;
  return {{contiguous_meta(each ? target.shape : Dims{}, self.dtype)},
          {contiguous_meta(Dims{}, self.dtype)}};
}

/// nll_loss2d_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight)
OutputMetas meta_nll_loss_of_places_backward(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(1);
  require_places(args.op(), self, *args.tensor(2), args.tensor(3));
  for (const std::size_t same : {0, 3, 6}) check_argument_dtype(args, same, 1);
  return {{contiguous_meta(self.shape, self.dtype)}};
}

// Places are samples, too: [samples, classes, places..] as [all, classes].
DTensor rows_of_classes(Calls& calls, const DTensor& self) {
  Dims order{0};
  for (std::size_t d = 2; d < self.ndim(); ++d) order.push_back(static_cast<std::int64_t>(d));
  order.push_back(1);
  const DTensor last = calls.one("permute", {self, order});
  const std::int64_t classes = self.shape()[1];
  return calls.one("reshape", {last, Dims{classes == 0 ? 0 : self.numel() / classes, classes}});
}

DTensor flat(Calls& calls, const DTensor& x) { return calls.one("reshape", {x, Dims{x.numel()}}); }

Results nll_loss_of_places(Calls& calls, const OpRow&, const Arguments& args) {
  const DTensor& target = args[1].tensor();
  Results results = calls("nll_loss_forward", {rows_of_classes(calls, args[0].tensor()),
                                               flat(calls, target), args[2], args[3], args[4]});
  if (loss_reduction(args[3]) == LossReduction::kNone) {
    results[0] = calls.one("reshape", {results[0], target.shape()});
  }
  return results;
}

Results nll_loss_of_places_backward(Calls& calls, const OpRow&, const Arguments& args) {
  const DTensor& self = args[1].tensor();
  const bool each = loss_reduction(args[4]) == LossReduction::kNone;
  const DTensor& gradient = args[0].tensor();
  const DTensor slope = calls.one(
      "nll_loss_backward", {each ? flat(calls, gradient) : gradient, rows_of_classes(calls, self),
                            flat(calls, args[2].tensor()), args[3], args[4], args[5], args[6]});
  Dims shape = args[2].tensor().shape(), order{0, static_cast<std::int64_t>(self.ndim()) - 1};
  shape.push_back(self.shape()[1]);
  for (std::size_t d = 2; d < self.ndim(); ++d) order.push_back(static_cast<std::int64_t>(d) - 1);
  const DTensor last = calls.one("view", {slope, shape});
  return calls("contiguous", {calls.one("permute", {last, order})});
}

/// Dims of self other than the class dim, each with the same dim of the target.
struct SampleDim {
  RulePlacement self, target;
};

std::vector<SampleDim> sample_dims(const DTensorSpec& self) {
  const std::int64_t classes = self.ndim() >= 2 ? 1 : 0;
  std::vector<SampleDim> dims;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(self.ndim()); ++d) {
    if (d == classes) continue;
    dims.push_back({RulePlacement::any(d), RulePlacement::any(d < classes ? d : d - 1)});
  }
  return dims;
}

Rows rule_nll_loss(const RuleContext& context) {
  const LossReduction reduction = loss_reduction(context.schema.args[3]);
  Rows rows;
  if (reduction == LossReduction::kMean) return rows;
  for (const SampleDim& dim : sample_dims(*context.tensors[0])) {
    RuleRow row{{sum(), sum()}, {dim.self, dim.target}};
    if (reduction == LossReduction::kNone) row.outputs = {dim.target, whole()};
    if (!context.schema.args[2].is_none()) row.inputs.push_back(whole());
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Only a mean reads the total weight: otherwise it may stay a partial sum.
Rows rule_nll_loss_backward(const RuleContext& context) {
  const LossReduction reduction = loss_reduction(context.schema.args[4]);
  const bool weighted = !context.schema.args[3].is_none();
  Rows rows;
  const auto append = [&](RuleRow row, RulePlacement total_weight) {
    if (weighted) row.inputs.push_back(whole());
    row.inputs.push_back(total_weight);
    rows.push_back(std::move(row));
  };
  for (const SampleDim& dim : sample_dims(*context.tensors[1])) {
    const bool none = reduction == LossReduction::kNone;
    const RuleRow row{{dim.self}, {none ? dim.target : whole(), dim.self, dim.target}};
    append(row, whole());
    if (reduction == LossReduction::kSum) append(row, sum());
  }
  if (reduction != LossReduction::kMean) append({{whole()}, {whole(), whole(), whole()}}, sum());
  return rows;
}

template <FixedText backward>
Gradients grad_nll_loss(const GradContext& context) {
  if (!context.needs(0) || !context.grads[0].defined()) return {};
  return {context.calls.one(
      backward, {context.grads[0], context.inputs[0], context.inputs[1], context.inputs[2],
                 context.inputs[3], context.inputs[4], context.outputs[1]})};
}

/// (grad_output, self, target, weight, reduction, ignore_index, total_weight): backward is linear,
/// its gradient is the forward op.
template <FixedText forward>
Gradients grad_nll_loss_backward(const GradContext& context) {
  if (!context.needs(0)) return {};
  return {context
              .calls(forward, {context.grads[0], context.inputs[2], context.inputs[3],
                               context.inputs[4], context.inputs[5]})[0]
              .tensor()};
}

// Sorted by name.
// clang-format off
constexpr Row kLossRows[] = {
    {"nll_loss2d_backward"_op, meta_nll_loss_of_places_backward, rule_nll_loss_backward,
     nll_loss_of_places_backward,
     {grad_nll_loss_backward<"aten::nll_loss2d_forward">, "target weight"},
     "samples are independent", 0, {4}},
    {"nll_loss2d_forward"_op, meta_nll_loss_of_places, rule_nll_loss, nll_loss_of_places,
     {grad_nll_loss<"aten::nll_loss2d_backward">, "self target weight result1 !weight !result1"},
     "sums over samples add up", 0, {3}},
    {"nll_loss_backward"_op, meta_nll_loss_backward, rule_nll_loss_backward,
     KernelId::kNllLossBackward,
     {grad_nll_loss_backward<"aten::nll_loss_forward">, "target weight"}, "samples are independent",
     kSumsLinearly, {4}},
    {"nll_loss_forward"_op, meta_nll_loss, rule_nll_loss, KernelId::kNllLossForward,
     {grad_nll_loss<"aten::nll_loss_backward">, "self target weight result1 !weight !result1"},
     "sums over samples add up", kSumsLinearly, {3}},
};
// clang-format on

}  // namespace

void register_loss(OpRegistry& registry) { add_rows(registry, kLossRows); }

}  // namespace shardlab
