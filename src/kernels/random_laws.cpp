// Draws from categories by their weights, made of the numbers of elements (draws.cpp).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/cpu_loops.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/scratch.h"

namespace shardlab {
namespace {

/// Draws of one row of weights.
class Categories {
 public:
  Categories(const double* weights, std::int64_t count) : weights_(weights, weights + count) {
    for (const double weight : weights_) {
      if (!(weight >= 0) || std::isinf(weight)) {
        refuse_law("multinomial", "a weight", weight, "a number that is not negative");
      }
      total_ += weight;
      present_ += weight > 0;
    }
    if (!(total_ > 0)) refuse_law("multinomial", "the sum of the weights", total_, "above 0");
  }

  /// Number of categories that can be drawn without replacement.
  std::int64_t present() const { return present_; }

  /// The category that contains the share `u` of the weights.
  std::int64_t find(double u) const {
    const double wanted = u * total_;
    double sum = 0;
    std::int64_t last = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i] == 0) continue;
      last = static_cast<std::int64_t>(i);
      sum += weights_[i];
      if (wanted < sum) break;
    }
    return last;
  }

  void remove(std::int64_t category) {
    weights_[static_cast<std::size_t>(category)] = 0;
    total_ = 0;
    for (const double weight : weights_) total_ += weight;
  }

 private:
  std::vector<double> weights_;
  double total_ = 0;
  std::int64_t present_ = 0;
};

// multinomial(weights, draws, replacement)
void multinomial_kernel(const KernelCall& call) {
  const Tensor &weights = tensor_arg(call, 0), &out = call.outputs[0];
  const std::int64_t draws = int_arg(call, 1);
  const bool replaced = scalar_arg(call, 2).to_bool();
  const std::int64_t categories = weights.size(weights.shape().size() - 1);
  const std::int64_t rows = out.numel() / std::max<std::int64_t>(draws, 1);
  const Tensor made = empty(cpu_loops().device(), out.shape(), DType::kF64);
  cpu_loops().draw({{DrawLaw::Kind::kUniform}, made, call.view, call.random});
  const RowMajor<double> shares(made);
  const RowMajor<double> table(weights);
  const RowMajorOutput<std::int64_t> drawn(out);
  for (std::int64_t row = 0; row < rows; ++row) {
    Categories left(table.data() + row * categories, categories);
    if (!replaced && left.present() < draws) {
      fail(Fix{"draw with replacement, or fewer times"},
           "multinomial: {} draws without replacement, from {} categories that have a weight",
           draws, left.present());
    }
    for (std::int64_t k = 0; k < draws; ++k) {
      const std::int64_t category = left.find(shares.data()[row * draws + k]);
      drawn.data()[row * draws + k] = category;
      if (!replaced) left.remove(category);
    }
  }
  drawn.store();
}

}  // namespace

void add_random_law_kernels(CpuKernelTable& table) {
  table.set(KernelId::kMultinomial, multinomial_kernel);
}

}  // namespace shardlab
