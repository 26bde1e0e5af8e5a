// Losses over classes. The class dim stays whole; samples may be sharded, and a summed loss adds up
// over the ranks. A mean of unequal shares does not, so it gathers.
#include "kernels/kernel_id.h"
#include "ops/arguments.h"
#include "ops/derive.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace shardlab {
namespace {

using Metas = std::vector<OutputMeta>;
using Rows = std::vector<RuleRow>;

RulePlacement whole() { return placement_of_letter('r'); }
RulePlacement sum() { return placement_of_letter('s'); }

/// As the reference numbers them.
enum class Reduction { kNone = 0, kMean = 1, kSum = 2 };

Reduction reduction_of(const Argument& argument) {
  const std::int64_t number = argument.to_int();
  if (number < 0 || number > 2) fail(ErrorKind::kValue, "no reduction has the number {}", number);
  return static_cast<Reduction>(number);
}

/// self [samples, classes] or [classes], target [samples] or []
void require_classes(const TensorMeta& self, const TensorMeta& target, const TensorMeta* weight) {
  const std::size_t ndim = self.shape.size();
  if (ndim < 1 || ndim > 2) fail(ErrorKind::kValue, "nll_loss takes 1 or 2 dims, not {}", ndim);
  const std::int64_t samples = ndim == 1 ? 1 : self.shape[0];
  const bool fits = target.shape.size() <= 1 && product(target.shape) == samples;
  if (!fits) fail(ErrorKind::kValue, "nll_loss takes one target per sample");
  if (weight != nullptr && product(weight->shape) != self.shape.back()) {
    fail(ErrorKind::kValue, "nll_loss takes one weight per class: {}, not {}", self.shape.back(),
         product(weight->shape));
  }
}

/// nll_loss_forward(self, target, weight, reduction, ignore_index): output, total_weight
Metas meta_nll_loss(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(0);
  require_classes(self, *args.tensor(1), args.tensor(2));
  Dims shape;
  if (reduction_of(args[3]) == Reduction::kNone && self.shape.size() == 2) {
    shape.push_back(self.shape[0]);
  }
  return {{contiguous_meta(shape, self.dtype)}, {contiguous_meta(Dims{}, self.dtype)}};
}

/// nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight)
Metas meta_nll_loss_backward(const MetaArgs& args) {
  const TensorMeta& self = *args.tensor(1);
  require_classes(self, *args.tensor(2), args.tensor(3));
  const bool each = reduction_of(args[4]) == Reduction::kNone && self.shape.size() == 2;
  const std::int64_t gradients = product(args.tensor(0)->shape);
  const std::int64_t wanted = each ? self.shape[0] : 1;
  if (gradients != wanted || product(args.tensor(6)->shape) != 1) {
    fail(ErrorKind::kValue, "nll_loss_backward takes {} gradients and one total weight, not {}, {}",
         wanted, gradients, product(args.tensor(6)->shape));
  }
  return {{contiguous_meta(self.shape, self.dtype)}};
}

/// Dims of self other than the class dim, with the dim of the target that goes along.
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
  const Reduction reduction = reduction_of(context.schema.args[3]);
  Rows rows;
  if (reduction == Reduction::kMean) return rows;
  for (const SampleDim& dim : sample_dims(*context.tensors[0])) {
    RuleRow row{{sum(), sum()}, {dim.self, dim.target}};
    if (reduction == Reduction::kNone) row.outputs = {dim.target, whole()};
    if (!context.schema.args[2].is_none()) row.inputs.push_back(whole());
    rows.push_back(std::move(row));
  }
  return rows;
}

/// The total weight is looked at by a mean only: otherwise it may stay a partial sum.
Rows rule_nll_loss_backward(const RuleContext& context) {
  const Reduction reduction = reduction_of(context.schema.args[4]);
  const bool weighted = !context.schema.args[3].is_none();
  Rows rows;
  const auto append = [&](RuleRow row, RulePlacement total_weight) {
    if (weighted) row.inputs.push_back(whole());
    row.inputs.push_back(total_weight);
    rows.push_back(std::move(row));
  };
  for (const SampleDim& dim : sample_dims(*context.tensors[1])) {
    const bool none = reduction == Reduction::kNone;
    const RuleRow row{{dim.self}, {none ? dim.target : whole(), dim.self, dim.target}};
    append(row, whole());
    if (reduction == Reduction::kSum) append(row, sum());
  }
  if (reduction != Reduction::kMean) append({{whole()}, {whole(), whole(), whole()}}, sum());
  return rows;
}

}  // namespace

void register_loss(OpRegistry& registry) {
  OpRow forward;
  forward.op = parse_op_schema(
      "nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, "
      "SymInt ignore_index) -> (Tensor output, Tensor total_weight)");
  forward.meta = meta_nll_loss;
  forward.rule = rule_nll_loss;
  forward.info.static_argnum = 3;
  forward.kernel = KernelId::kNllLossForward;
  forward.why = "sums over samples add up";
  add_with_variants(registry, std::move(forward), {false, "output"});

  OpRow backward;
  backward.op = parse_op_schema(
      "nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, "
      "int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor");
  backward.meta = meta_nll_loss_backward;
  backward.rule = rule_nll_loss_backward;
  backward.info.static_argnum = 4;
  backward.kernel = KernelId::kNllLossBackward;
  backward.why = "samples are independent";
  add_with_variants(registry, std::move(backward), {false, "grad_input"});
}

}  // namespace shardlab
