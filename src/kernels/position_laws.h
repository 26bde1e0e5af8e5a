// position_laws.h - values that follow from a place, or from the random words of one: sequences of
// numbers, and random laws other than uniform and normal. For the CPU and for GPUs.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/philox.h"

namespace shardlab {

struct KernelCall;

/// A standard normal number.
SHARDLAB_HD inline double normal_double(const PhiloxWords& words) {
  const auto [radius, turn] = normal_source_double(words);
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * turn);
}

/// `steps` numbers from `first` to `last`; symmetric, so that both ends are exact.
struct EvenSteps {
  double first;
  double last;
  std::int64_t steps;

  SHARDLAB_HD double operator()(std::int64_t i) const {
    const double step = steps > 1 ? (last - first) / static_cast<double>(steps - 1) : 0;
    return i < (steps + 1) / 2 ? first + static_cast<double>(i) * step
                               : last - static_cast<double>(steps - 1 - i) * step;
  }
};

/// Powers of `base`, the exponents in even steps.
struct PowerSteps {
  EvenSteps exponents;
  double base;

  SHARDLAB_HD double operator()(std::int64_t i) const { return std::pow(base, exponents(i)); }
};

/// A raised cosine that begins again after `period` places.
struct RaisedCosine {
  std::int64_t length;
  std::int64_t period;

  SHARDLAB_HD double operator()(std::int64_t i) const {
    if (length == 1) return 1.0;
    const double turn = static_cast<double>(i) / static_cast<double>(period);
    return 0.5 - 0.5 * std::cos(2 * std::numbers::pi * turn);
  }
};

// A law that has an inverse distribution function is that function of the f64 uniform number, of
// which 1 - u is never 0.

struct ExponentialLaw {
  double rate;

  SHARDLAB_HD double operator()(const PhiloxWords& words) const {
    return -std::log1p(-uniform_double(words)) / rate;
  }
};

/// Number of trials until one succeeds.
struct GeometricLaw {
  double scale;  ///< logarithm of the chance that a trial fails

  SHARDLAB_HD double operator()(const PhiloxWords& words) const {
    const double trials = std::ceil(std::log1p(-uniform_double(words)) / scale);
    return trials > 1 ? trials : 1;
  }
};

struct CauchyLaw {
  double median;
  double sigma;

  SHARDLAB_HD double operator()(const PhiloxWords& words) const {
    return median + sigma * std::tan(std::numbers::pi * (uniform_double(words) - 0.5));
  }
};

/// The exponential of a normal number.
struct LogNormalLaw {
  double mean;
  double deviation;

  SHARDLAB_HD double operator()(const PhiloxWords& words) const {
    return std::exp(mean + deviation * normal_double(words));
  }
};

/// Of linspace(start, end, steps) and logspace(start, end, steps, base): integers step from an
/// integer to an integer.
EvenSteps even_steps(const KernelCall& call);
PowerSteps power_steps(const KernelCall& call);
/// Of hann_window(length, periodic): it ends before it repeats, or where it began.
RaisedCosine raised_cosine(const KernelCall& call);

/// Of exponential(self, lambd), geometric(self, p), cauchy(self, median, sigma) and
/// log_normal(self, mean, std).
///   fails  with Value for a number that the law does not have
ExponentialLaw exponential_law(const KernelCall& call);
GeometricLaw geometric_law(const KernelCall& call);
CauchyLaw cauchy_law(const KernelCall& call);
LogNormalLaw log_normal_law(const KernelCall& call);

}  // namespace shardlab
