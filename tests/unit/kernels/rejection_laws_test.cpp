// Laws that are drawn by rejection: the frequency of each count, compared with plain loops over the
// law; the distribution of gamma numbers, compared with torch's; each element's numbers by its
// place; refusals of a law.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/special_functions.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

constexpr std::int64_t kDraws = 100000;

std::vector<double> drawn(KernelId law, const std::vector<double>& parameters,
                          std::int64_t count = kDraws, const LocalView* view = nullptr) {
  Kernels kernels;
  std::vector<LocalArg> args;
  for (const double parameter : parameters) {
    args.emplace_back(
        kernels.run(KernelId::kFill, {Dims{}, Scalar(parameter)}, Dims{count}, DType::kF64));
  }
  const Tensor out = empty(kernels.device(), Dims{count}, DType::kF64);
  kernels.run(law, args, std::vector<Tensor>{out}, view, {1234, 56});
  return values_of<double>(out);
}

/// Pearson's sum over the counts that are expected at least ten times, the rest in one; within the
/// limit that one of a million samples exceeds: freedom + 5 sqrt(2 freedom) + 20.
void check_frequencies(const std::vector<double>& values, const std::vector<double>& chances) {
  std::vector<double> seen(chances.size(), 0);
  double beyond = 0;
  for (const double value : values) {
    REQUIRE(value == std::floor(value));
    REQUIRE(value >= 0);
    if (value < static_cast<double>(chances.size())) {
      seen[static_cast<std::size_t>(value)] += 1;
    } else {
      beyond += 1;
    }
  }
  const auto all = static_cast<double>(values.size());
  double sum = 0, freedom = 0, rest_seen = beyond, rest_expected = all;
  for (std::size_t k = 0; k < chances.size(); ++k) {
    const double expected = chances[k] * all;
    if (expected < 10) {
      rest_seen += seen[k];
      continue;
    }
    sum += (seen[k] - expected) * (seen[k] - expected) / expected;
    rest_expected -= expected;
    freedom += 1;
  }
  CHECK(freedom > 2);
  CHECK(sum < freedom + 5 * std::sqrt(2 * freedom) + 20);
  CHECK(std::fabs(rest_seen - rest_expected) < 5 * std::sqrt(std::fabs(rest_expected) + 1) + 1);
}

std::vector<double> poisson_chances(double rate) {
  std::vector<double> chances;
  double logarithm = -rate;
  for (int k = 0; k < 4 * rate + 40; ++k) {
    chances.push_back(std::exp(logarithm));
    logarithm += std::log(rate / (k + 1));
  }
  return chances;
}

std::vector<double> binomial_chances(int count, double chance) {
  std::vector<double> chances;
  double logarithm = count * std::log(1 - chance);
  for (int k = 0; k <= count; ++k) {
    chances.push_back(std::exp(logarithm));
    logarithm += std::log(static_cast<double>(count - k) / (k + 1) * chance / (1 - chance));
  }
  return chances;
}

}  // namespace

TEST_CASE("counts by Poisson's law come as often as it says, below and above a mean of ten") {
  for (const double rate : {0.3, 4.0, 9.99, 10.0, 37.5, 400.0}) {
    CAPTURE(rate);
    check_frequencies(drawn(KernelId::kPoisson, {rate}), poisson_chances(rate));
  }
}

TEST_CASE("binomial counts come as often as their law says, of few and of many successes") {
  const std::pair<int, double> laws[] = {{3, 0.5},   {12, 0.1},   {40, 0.24},  {40, 0.25},
                                         {40, 0.75}, {300, 0.45}, {300, 0.97}, {1000, 0.02}};
  for (const auto& law : laws) {
    const auto count = law.first;
    const double chance = law.second;
    CAPTURE(count);
    CAPTURE(chance);
    check_frequencies(drawn(KernelId::kBinomial, {static_cast<double>(count), chance}),
                      binomial_chances(count, chance));
  }
}

TEST_CASE("gamma numbers lie below what torch's gammainc says in its share of draws") {
  struct Row {
    double shape, bound, share;  // torch.special.gammainc(shape, bound)
  };
  const Row rows[] = {{0.3, 0.05, 0.4484368621065926}, {0.3, 0.4, 0.7763805810166361},
                      {2.5, 1.5, 0.3000141641213724},  {2.5, 3, 0.6937810815867212},
                      {50, 47, 0.3498754640970659},    {50, 53, 0.6783163604610851}};
  for (const Row& row : rows) {
    CAPTURE(row.shape);
    double below = 0;
    for (const double x : drawn(KernelId::kStandardGamma, {row.shape})) below += x < row.bound;
    const double deviation = std::sqrt(row.share * (1 - row.share) / kDraws);
    CHECK(std::fabs(below / kDraws - row.share) < 5 * deviation);
  }
}

TEST_CASE("X-40 laws drawn by rejection: a shard draws the numbers of its global elements") {
  const LocalView view{{20}, {{{{3, 4}, {15, 2}}}}};
  const std::size_t places[] = {3, 4, 5, 6, 15, 16};
  const std::pair<KernelId, std::vector<double>> laws[] = {{KernelId::kPoisson, {50}},
                                                           {KernelId::kBinomial, {90, 0.4}},
                                                           {KernelId::kStandardGamma, {0.7}}};
  for (const auto& law : laws) {
    const auto whole = drawn(law.first, law.second, 20);
    const auto piece = drawn(law.first, law.second, 6, &view);
    for (std::size_t i = 0; i < 6; ++i) CHECK(piece[i] == whole[places[i]]);
  }
}

TEST_CASE("laws at their ends, as torch has them, and numbers that they do not have") {
  CHECK(drawn(KernelId::kPoisson, {0}, 2) == std::vector<double>{0, 0});
  CHECK(drawn(KernelId::kBinomial, {3.5, 1}, 1) == std::vector<double>{3.5});
  CHECK(drawn(KernelId::kBinomial, {4, 1.5}, 1) == std::vector<double>{4});
  CHECK(drawn(KernelId::kBinomial, {4, -0.5}, 1) == std::vector<double>{0});
  CHECK(drawn(KernelId::kBinomial, {-3, 0.5}, 1) == std::vector<double>{0});
  CHECK(std::isnan(drawn(KernelId::kBinomial, {4, std::nan("")}, 1)[0]));
  CHECK(drawn(KernelId::kStandardGamma, {0}, 1)[0] == 0x1p-1022);
  CHECK(drawn(KernelId::kStandardGamma, {std::nan("")}, 1)[0] == 0x1p-1022);
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(drawn(KernelId::kStandardGamma, {infinity}, 1)[0] == infinity);
  CHECK_THROWS_AS(drawn(KernelId::kPoisson, {-1}, 1), Error);
  CHECK_THROWS_AS(drawn(KernelId::kPoisson, {std::nan("")}, 1), Error);
  CHECK_THROWS_AS(drawn(KernelId::kPoisson, {infinity}, 1), Error);
  CHECK_THROWS_AS(drawn(KernelId::kBinomial, {infinity, 0.5}, 1), Error);
}

// Differences of torch.special.gammainc (2.15) at shape * (1 +- 1e-5), over the density: right to
// six digits or so. torch's own _standard_gamma_grad is fitted, and off by up to 6e-4 of them.
TEST_CASE("X-70 how a gamma number moves with its shape") {
  struct Row {
    double shape, x, slope;
  };
  const Row rows[] = {{0.1, 0.001, 0.06490724738593005}, {0.1, 0.5, 5.119691565618624},
                      {0.5, 0.4, 1.1865788659243357},    {1, 0.5, 0.8069791168167743},
                      {1, 1, 1.1735630272307012},        {1, 4, 2.1698556759279257},
                      {2.5, 0.3, 0.30557287988832127},   {2.5, 3, 1.1692620067428303},
                      {5, 6, 1.1310631120276542},        {9, 4, 0.6605616338111091},
                      {9, 9, 1.018710735832324},         {9, 15, 1.300816435953902},
                      {15, 12, 0.9025308684086274},      {25, 18, 0.8503540456012765},
                      {20, 40, 1.397737736838445},       {100, 100, 1.0016683220853768},
                      {1000, 950, 0.9747350499748018},   {1e-3, 0.01, 40.80110927368913}};
  for (const Row& row : rows) {
    CAPTURE(row.shape);
    CAPTURE(row.x);
    CHECK(special::gamma_draw_slope(row.shape, row.x) == doctest::Approx(row.slope).epsilon(3e-7));
  }
  CHECK(special::gamma_draw_slope(2, 0) == 0);
}
