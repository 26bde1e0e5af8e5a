// Random numbers by other laws than uniform and normal, made of the same numbers by element
// (random.cpp).
#include <algorithm>
#include <cmath>

#include "base/fix.h"
#include "kernels/draw_elements.h"
#include "kernels/kernel_table.h"
#include "kernels/position_laws.h"

namespace shardlab {
namespace {

double number_arg(const KernelCall& call, std::size_t index) {
  return scalar_arg(call, index).to_double();
}

}  // namespace

void refuse_law(std::string_view op, std::string_view name, double value, std::string_view wanted) {
  fail(ErrorKind::kValue, Fix{"choose a number that the law has"}, "{}: {} is {}; it must be {}",
       op, name, value, wanted);
}

ExponentialLaw exponential_law(const KernelCall& call) {
  const double rate = number_arg(call, 1);
  if (!(rate > 0)) refuse_law("exponential", "lambd", rate, "above 0");
  return {rate};
}

GeometricLaw geometric_law(const KernelCall& call) {
  const double chance = number_arg(call, 1);
  if (!(chance > 0 && chance < 1)) refuse_law("geometric", "p", chance, "between 0 and 1");
  return {std::log1p(-chance)};
}

CauchyLaw cauchy_law(const KernelCall& call) {
  const double median = number_arg(call, 1), sigma = number_arg(call, 2);
  if (!(sigma > 0)) refuse_law("cauchy", "sigma", sigma, "above 0");
  return {median, sigma};
}

LogNormalLaw log_normal_law(const KernelCall& call) {
  const double mean = number_arg(call, 1), deviation = number_arg(call, 2);
  if (!(deviation > 0)) refuse_law("log_normal", "std", deviation, "above 0");
  return {mean, deviation};
}

namespace {

template <auto law_of>
void draw_by(const KernelCall& call) {
  const auto law = law_of(call);
  draw_elements<double>(call, call.outputs[0],
                        [&](const PhiloxWords& words, std::int64_t) { return law(words); });
}

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
  const auto shares = scratch<double>(out.numel());
  draw_elements<std::int64_t>(call, out, [&](const PhiloxWords& words, std::int64_t i) {
    shares[i] = uniform_double(words);
    return std::int64_t{0};
  });
  const RowMajor<double> table(weights);
  const RowMajorOutput<std::int64_t> drawn(out);
  for (std::int64_t row = 0; row < rows; ++row) {
    Categories left(table.data() + row * categories, categories);
    if (!replaced && left.present() < draws) {
      fail(ErrorKind::kValue, Fix{"draw with replacement, or fewer times"},
           "multinomial: {} draws without replacement, from {} categories that have a weight",
           draws, left.present());
    }
    for (std::int64_t k = 0; k < draws; ++k) {
      const std::int64_t category = left.find(shares[row * draws + k]);
      drawn.data()[row * draws + k] = category;
      if (!replaced) left.remove(category);
    }
  }
  drawn.store();
}

}  // namespace

void add_random_law_kernels(KernelTable& table) {
  table.set(KernelId::kExponential, draw_by<exponential_law>);
  table.set(KernelId::kGeometric, draw_by<geometric_law>);
  table.set(KernelId::kLogNormal, draw_by<log_normal_law>);
  table.set(KernelId::kCauchy, draw_by<cauchy_law>);
  table.set(KernelId::kMultinomial, multinomial_kernel);
}

}  // namespace shardlab
