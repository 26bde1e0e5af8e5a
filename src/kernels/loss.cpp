// Negative log likelihood and its gradient: self [N, C] or [C], target [N] or a single class.
#include "base/fix.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/row_reduce.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

enum class LossReduction : std::int64_t { kNone = 0, kMean = 1, kSum = 2 };

// The targets and the weight of each row's class; ignored rows have weight 0.
template <typename T>
class Targets {
 public:
  Targets(const Tensor& target, const Tensor* weight, std::int64_t classes, std::int64_t ignored)
      : classes_(target), count_(target.numel()), weight_of_row_(scratch<T>(count_)) {
    const bool weighted = weight != nullptr;
    const auto weights = scratch<T>(weighted ? classes : 0);
    if (weighted) load_row_major(weights.get(), dtype_of<T>(), *weight);
    for (std::int64_t i = 0; i < count_; ++i) {
      const std::int64_t chosen = classes_.data()[i];
      if (chosen == ignored) {
        weight_of_row_[i] = T(0);
        continue;
      }
      if (chosen < 0 || chosen >= classes) {
        fail(ErrorKind::kValue,
             Fix{fmt::format(
                 "give logits of more classes, or {} (ignore_index) where there is none", ignored)},
             "target {} is out of range; it must be in [0, {})", chosen, classes);
      }
      weight_of_row_[i] = weighted ? weights[chosen] : T(1);
    }
    ignored_ = ignored;
  }

  std::int64_t count() const { return count_; }
  bool ignores(std::int64_t row) const { return classes_.data()[row] == ignored_; }
  std::int64_t chosen(std::int64_t row) const { return classes_.data()[row]; }
  T weight(std::int64_t row) const { return weight_of_row_[row]; }
  T total_weight() const {
    return reduce_row<SumOp>(static_cast<const T*>(weight_of_row_.get()), count_);
  }

 private:
  RowMajor<std::int64_t> classes_;
  std::int64_t count_;
  std::int64_t ignored_ = 0;
  Scratch<T> weight_of_row_;
};

std::int64_t class_count(const Tensor& self) { return self.shape().back(); }

// nll_loss_forward(self, target, weight, reduction, ignore_index) -> output, total_weight
template <typename T>
void nll_loss_forward(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const std::int64_t classes = class_count(self);
  const auto reduction = static_cast<LossReduction>(int_arg(call, 3));
  const Targets<T> targets(tensor_arg(call, 1), optional_tensor_arg(call, 2), classes,
                           int_arg(call, 4));
  const RowMajor<T> scores(self);
  const auto losses = scratch<T>(targets.count());
  for (std::int64_t i = 0; i < targets.count(); ++i) {
    losses[i] = targets.ignores(i)
                    ? T(0)
                    : -scores.data()[i * classes + targets.chosen(i)] * targets.weight(i);
  }
  if (reduction == LossReduction::kNone) {
    store_row_major(call.outputs[0], losses.get(), dtype_of<T>());
    if (self.shape().size() > 1) return fill_tensor(call.outputs[1], Scalar(0.0));
    // One row without a batch is its own sum: the reference gives its weight whatever the
    // reduction.
    const T own = targets.total_weight();
    return store_row_major(call.outputs[1], &own, dtype_of<T>());
  }
  const T total_weight = targets.total_weight();
  T total = reduce_row<SumOp>(static_cast<const T*>(losses.get()), targets.count());
  if (reduction == LossReduction::kMean) total /= total_weight;
  store_row_major(call.outputs[0], &total, dtype_of<T>());
  store_row_major(call.outputs[1], &total_weight, dtype_of<T>());
}

// nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight)
template <typename T>
void nll_loss_backward(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 1);
  const std::int64_t classes = class_count(self);
  const auto reduction = static_cast<LossReduction>(int_arg(call, 4));
  const Targets<T> targets(tensor_arg(call, 2), optional_tensor_arg(call, 3), classes,
                           int_arg(call, 5));
  const RowMajor<T> grad(tensor_arg(call, 0));
  const RowMajor<T> total_weight(tensor_arg(call, 6));
  const RowMajorOutput<T> result(call.outputs[0]);
  std::fill_n(result.data(), self.numel(), T(0));
  for (std::int64_t i = 0; i < targets.count(); ++i) {
    if (targets.ignores(i)) continue;
    const T incoming = grad.data()[reduction == LossReduction::kNone ? i : 0];
    const T scale =
        reduction == LossReduction::kMean ? incoming / total_weight.data()[0] : incoming;
    result.data()[i * classes + targets.chosen(i)] = -targets.weight(i) * scale;
  }
  result.store();
}

}  // namespace

void add_loss_kernels(KernelTable& table) {
  table.set(KernelId::kNllLossForward, [](const KernelCall& call) {
    with_compute_type<kRealKind>(tensor_arg(call, 0).dtype(),
                                 [&](auto type) { nll_loss_forward<decltype(type)>(call); });
  });
  table.set(KernelId::kNllLossBackward, [](const KernelCall& call) {
    with_compute_type<kRealKind>(tensor_arg(call, 1).dtype(),
                                 [&](auto type) { nll_loss_backward<decltype(type)>(call); });
  });
}

}  // namespace shardlab
