// Random numbers by laws that are drawn by rejection: an element takes as many uniform numbers as
// it needs, from a sequence of its own, so that no other element's numbers move. Counts
// about a small mean are counted up; others are drawn from below a hat over the law (Hoermann, "The
// transformed rejection method for generating Poisson random variables", 1993, and "The generation
// of binomial random variates", 1993); gamma: Marsaglia and Tsang, "A simple method for generating
// gamma variables", 2000.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/kernel_args.h"
#include "kernels/kernel_table.h"
#include "kernels/position_laws.h"
#include "kernels/positions.h"
#include "kernels/scratch.h"

namespace shardlab {
namespace {

/// The sequence of one element: block b of its words has b in the third word of the counter, so
/// that block 0 has the numbers of laws that take one.
class ElementDraws {
 public:
  ElementDraws(const RandomState& state, std::uint64_t index)
      : seed_(state.seed), position_(state.offset + index) {}

  /// In [0, 1).
  double uniform() { return uniform_double(block()); }

  double normal() { return normal_double(block()); }

 private:
  PhiloxWords block() {
    return philox4x32({{static_cast<std::uint32_t>(position_),
                        static_cast<std::uint32_t>(position_ >> 32), blocks_++, 0}},
                      static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32));
  }

  std::uint64_t seed_, position_;
  std::uint32_t blocks_ = 0;
};

/// results[i] = make(draws of element i, i) in row-major order.
void draw_sequences(const KernelCall& call, auto make) {
  const Tensor& out = call.outputs[0];
  const RowMajorOutput<double> result(out);
  for_each_run(out, call.view, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      ElementDraws draws(call.random, static_cast<std::uint64_t>(global + i));
      result.data()[local + i] = make(draws, local + i);
    }
  });
  result.store();
}

/// A place under a hat of width `b` and slope `a`: its distance, in steps, from the middle, and
/// that of `u` from the ends.
struct UnderHat {
  UnderHat(ElementDraws& draws, double a, double b)
      : u(draws.uniform() - 0.5),
        height(1 - draws.uniform()),
        end(0.5 - std::abs(u)),
        step((2 * a / end + b) * u),
        slope(a / (end * end) + b) {}

  double u;
  double height;  ///< in (0, 1]
  double end;
  double step;
  double slope;
};

double poisson_counted(ElementDraws& draws, double rate) {
  const double none = std::exp(-rate);
  double count = 0;
  for (double product = 1 - draws.uniform(); product > none; count += 1) {
    product *= 1 - draws.uniform();
  }
  return count;
}

double poisson(ElementDraws& draws, double rate) {
  if (rate < 10) return poisson_counted(draws, rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double scale = 1.1239 + 1.1328 / (b - 3.4), sure = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const UnderHat at(draws, a, b);
    const double count = std::floor(at.step + rate + 0.43);
    if (at.end >= 0.07 && at.height <= sure) return count;
    if (!(count >= 0) || (at.end < 0.013 && at.height > at.end)) continue;
    const double law = count * std::log(rate) - rate - std::lgamma(count + 1);
    if (std::log(at.height * scale / at.slope) <= law) return count;
  }
}

/// One success after another, with the number of trials that each takes.
double binomial_counted(ElementDraws& draws, double count, double chance) {
  const double scale = std::log1p(-chance);
  double successes = 0;
  for (double trials = 0;; successes += 1) {
    trials += std::ceil(std::log1p(-draws.uniform()) / scale);
    if (trials > count) return successes;
  }
}

/// For chances up to a half.
double binomial_of_few(ElementDraws& draws, double count, double chance) {
  if (count * chance < 10) return binomial_counted(draws, count, chance);
  const double deviation = std::sqrt(count * chance * (1 - chance));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * chance;
  const double scale = (2.83 + 5.1 / b) * deviation, sure = 0.92 - 4.2 / b;
  const double odds = std::log(chance / (1 - chance)), mode = std::floor((count + 1) * chance);
  const double top = std::lgamma(mode + 1) + std::lgamma(count - mode + 1);
  for (;;) {
    const UnderHat at(draws, a, b);
    const double successes = std::floor(at.step + count * chance + 0.5);
    if (at.end >= 0.07 && at.height <= sure) return successes;
    if (!(successes >= 0 && successes <= count)) continue;
    const double law = top - std::lgamma(successes + 1) - std::lgamma(count - successes + 1);
    if (std::log(at.height * scale / at.slope) <= law + (successes - mode) * odds) return successes;
  }
}

double binomial(ElementDraws& draws, double count, double chance) {
  if (count <= 0 || chance <= 0) return 0;
  if (chance >= 1) return count;
  if (std::isnan(chance)) return chance;
  if (!std::isfinite(count)) {
    fail(Fix{"choose numbers that the law has"},
         "binomial: a count is {}; it must be a number of trials", count);
  }
  if (chance <= 0.5) return binomial_of_few(draws, count, chance);
  return count - binomial_of_few(draws, count, 1 - chance);
}

/// Shapes below 1 are drawn as shape + 1, and scaled down.
double standard_gamma(ElementDraws& draws, double shape) {
  if (shape == 0) return 0;
  double scale = 1;
  if (shape < 1) {
    scale = std::pow(1 - draws.uniform(), 1 / shape);
    shape += 1;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double normal = draws.normal(), root = 1 + c * normal;
    if (root <= 0) continue;
    const double cube = root * root * root, share = 1 - draws.uniform();
    const double square = normal * normal;
    if (share < 1 - 0.0331 * square * square ||
        std::log(share) < 0.5 * square + d * (1 - cube + std::log(cube))) {
      return scale * d * cube;
    }
  }
}

double least_normal(DType dtype) {
  if (dtype == DType::kF64) return std::numeric_limits<double>::min();
  return dtype == DType::kF16 ? 0x1p-14 : 0x1p-126;
}

// poisson(self)
void poisson_kernel(const KernelCall& call) {
  const RowMajor<double> rates(tensor_arg(call, 0));
  draw_sequences(call, [&](ElementDraws& draws, std::int64_t i) {
    const double rate = rates.data()[i];
    if (!(rate >= 0 && rate < 0x1p63)) {
      fail(Fix{"choose numbers that the law has"},
           "poisson: a rate is {}; it must be from 0 to below 2^63", rate);
    }
    return poisson(draws, rate);
  });
}

// binomial(count, prob)
void binomial_kernel(const KernelCall& call) {
  const Dims& shape = call.outputs[0].shape();
  const RowMajor<double> counts(broadcast_view(tensor_arg(call, 0), shape)),
      chances(broadcast_view(tensor_arg(call, 1), shape));
  draw_sequences(call, [&](ElementDraws& draws, std::int64_t i) {
    return binomial(draws, counts.data()[i], chances.data()[i]);
  });
}

// _standard_gamma(self): at least the smallest normal number, so that logarithms are finite.
void standard_gamma_kernel(const KernelCall& call) {
  const RowMajor<double> shapes(tensor_arg(call, 0));
  const double least = least_normal(call.outputs[0].dtype());
  draw_sequences(call, [&](ElementDraws& draws, std::int64_t i) {
    const double shape = shapes.data()[i];
    if (!(shape > 0)) return least;
    const double drawn = standard_gamma(draws, shape);
    return drawn > least ? drawn : least;
  });
}

}  // namespace

void add_rejection_law_kernels(CpuKernelTable& table) {
  table.set(KernelId::kPoisson, poisson_kernel);
  table.set(KernelId::kBinomial, binomial_kernel);
  table.set(KernelId::kStandardGamma, standard_gamma_kernel);
}

}  // namespace shardlab
