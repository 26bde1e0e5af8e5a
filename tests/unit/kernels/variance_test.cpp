// Variance, deviation and norms against the definitions.
#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("variance: 1, 2, 3, 6 lie 14 squares from their mean") {
  Kernels kernels;
  const Tensor x = kernels.f32({4}, {1, 2, 3, 6});
  const auto variance = [&](const LocalArg& correction) {
    return values_of<float>(
        kernels.run(KernelId::kVar, {x, std::monostate{}, correction, Scalar(false)}, Dims{}))[0];
  };
  CHECK(variance(Scalar(0)) == 3.5f);
  CHECK(variance(Scalar(1)) == doctest::Approx(14.0 / 3));
  CHECK(variance(std::monostate{}) == doctest::Approx(14.0 / 3));  // None means 1
  CHECK(variance(Scalar(2)) == 7);
  CHECK(variance(Scalar(4)) == float(kInfinity));  // nothing is left to divide by
  CHECK(variance(Scalar(9)) == float(kInfinity));
}

TEST_CASE("var(self, unbiased) reads its one flag as the correction") {
  Kernels kernels;
  const Tensor x = kernels.f32({2, 2}, {1, 2, 3, 6});
  CHECK(values_of<float>(kernels.run(KernelId::kVar, {x, Scalar(false)}, Dims{}))[0] == 3.5f);
  CHECK(values_of<float>(kernels.run(KernelId::kStd, {x, Scalar(true)}, Dims{}))[0] ==
        doctest::Approx(std::sqrt(14.0 / 3)));
}

TEST_CASE("variance along dims, with the mean beside it") {
  Kernels kernels;
  const Tensor x = kernels.f32({2, 2}, {1, 5, 3, 11});
  const Tensor variance = empty(kernels.device(), Dims{2}, DType::kF32);
  const Tensor mean = empty(kernels.device(), Dims{2}, DType::kF32);
  kernels.run(KernelId::kVarMean, {x, Dims{0}, Scalar(0), Scalar(false)},
              std::vector<Tensor>{variance, mean});
  CHECK(values_of<float>(variance) == std::vector<float>{1, 9});
  CHECK(values_of<float>(mean) == std::vector<float>{2, 8});
  kernels.run(KernelId::kStdMean, {x, Dims{1}, Scalar(0), Scalar(false)},
              std::vector<Tensor>{variance, mean});
  CHECK(values_of<float>(variance) == std::vector<float>{2, 4});
  CHECK(values_of<float>(mean) == std::vector<float>{3, 7});
}

TEST_CASE("a mean beside a variance is NaN behind an infinity that an element follows") {
  Kernels kernels;
  constexpr float kFar = float(kInfinity);
  const Tensor x = kernels.f32({4, 3}, {1, kFar, 2, 1, 2, kFar, kFar, kFar, 1, 3, 1, -kFar});
  const Tensor variance = empty(kernels.device(), Dims{4}, DType::kF32);
  const Tensor mean = empty(kernels.device(), Dims{4}, DType::kF32);
  kernels.run(KernelId::kVarMean, {x, Dims{1}, Scalar(1), Scalar(false)},
              std::vector<Tensor>{variance, mean});
  const std::vector<float> means = values_of<float>(mean);  // torch 2.15
  CHECK(std::isnan(means[0]));
  CHECK(means[1] == kFar);
  CHECK(std::isnan(means[2]));
  CHECK(means[3] == -kFar);
  for (const float one : values_of<float>(variance)) CHECK(std::isnan(one));

  const Tensor large = kernels.tensor<double>({3}, DType::kF64, {1e308, 1e308, 1e308});
  const Tensor spread = empty(kernels.device(), Dims{}, DType::kF64);
  const Tensor middle = empty(kernels.device(), Dims{}, DType::kF64);
  kernels.run(KernelId::kVarMean, {large, std::monostate{}, Scalar(1), Scalar(false)},
              std::vector<Tensor>{spread, middle});
  CHECK(values_of<double>(middle)[0] == doctest::Approx(1e308));
}

TEST_CASE("a large offset does not cancel the variance") {
  Kernels kernels;
  const Tensor x = kernels.f32({3}, {16777214, 16777215, 16777216});
  CHECK(values_of<float>(kernels.run(KernelId::kVar,
                                     {x, std::monostate{}, Scalar(0), Scalar(false)}, Dims{}))[0] ==
        doctest::Approx(2.0 / 3));
}

TEST_CASE("the variance of a row is the same alone, beside others and down a column, bit for bit") {
  Kernels kernels;
  constexpr std::int64_t kRows = 37;
  for (const std::int64_t size : {5, 100, 1100}) {
    std::vector<float> numbers;
    for (std::int64_t i = 0; i < kRows * size; ++i) {
      numbers.push_back(static_cast<float>(i * 7919 % 1013) * 0.37f - static_cast<float>(i % 3));
    }
    const Tensor x = kernels.f32({kRows, size}, numbers);
    const Tensor down = clone_contiguous(turned(x));
    const auto of = [&](const Tensor& self, std::int64_t dim, std::int64_t kept) {
      return values_of<double>(
          kernels.run(KernelId::kVar, {self, Dims{dim}, Scalar(1)}, Dims{kept}, DType::kF64));
    };
    const auto all = of(x, 1, kRows), below = of(down, 0, kRows);
    CHECK(all == below);
    for (std::int64_t row = 0; row < kRows; ++row) {
      const Tensor one = x.as_view({{1, size}, {size, 1}, DType::kF32}, row * size);
      CHECK(of(one, 1, 1)[0] == all[static_cast<std::size_t>(row)]);
    }
  }
}

TEST_CASE("equal elements have variance 0 and themselves as their mean, in rows and in columns") {
  Kernels kernels;
  constexpr std::int64_t kSize = 1700;
  const Tensor x = kernels.f32({8, kSize}, std::vector<float>(8 * kSize, 0.1f));
  const Tensor down = clone_contiguous(turned(x));
  for (const bool is_down : {false, true}) {
    const Tensor variance = empty(kernels.device(), Dims{8}, DType::kF64);
    const Tensor mean = empty(kernels.device(), Dims{8}, DType::kF64);
    kernels.run(KernelId::kVarMean, {is_down ? down : x, Dims{is_down ? 0 : 1}, Scalar(1)},
                std::vector<Tensor>{variance, mean});
    CHECK(values_of<double>(variance) == std::vector<double>(8, 0.0));
    CHECK(values_of<double>(mean) == std::vector<double>(8, 0.1f));
  }
}

TEST_CASE("a variance keeps its digits where the first element is far from all others") {
  Kernels kernels;
  for (const double first : {0.0, 1.0, 1e3, -1e6, 1e12}) {
    for (const std::size_t size : {2, 17, 512, 513, 3000}) {
      std::vector<double> numbers(size);
      for (std::size_t i = 0; i < size; ++i) {
        numbers[i] = 1 + 1e-3 * static_cast<double>(i * 7919 % 1013);
      }
      for (std::size_t i = 0; i < size; i += 512) numbers[i] = first;
      long double mean = 0, squares = 0;
      for (const double number : numbers) mean += number;
      mean /= static_cast<long double>(size);
      for (const double number : numbers) squares += (number - mean) * (number - mean);
      const Tensor x = kernels.tensor({static_cast<std::int64_t>(size)}, DType::kF64, numbers);
      const double got = values_of<double>(
          kernels.run(KernelId::kVar, {x, Dims{0}, Scalar(0)}, Dims{}, DType::kF64))[0];
      CAPTURE(first);
      CAPTURE(size);
      CHECK(got == doctest::Approx(static_cast<double>(squares / size)).epsilon(1e-12));
    }
  }
}

TEST_CASE("variance of nothing and of one element with correction 1 is NaN") {
  Kernels kernels;
  const Tensor none = kernels.f32({2, 0}, {}), one = kernels.f32({1}, {4});
  for (const float value : values_of<float>(
           kernels.run(KernelId::kVar, {none, Dims{1}, Scalar(1), Scalar(false)}, Dims{2}))) {
    CHECK(std::isnan(value));
  }
  CHECK(std::isnan(values_of<float>(
      kernels.run(KernelId::kVar, {one, std::monostate{}, Scalar(1), Scalar(false)}, Dims{}))[0]));
  CHECK(values_of<float>(kernels.run(
            KernelId::kVar, {one, std::monostate{}, Scalar(0), Scalar(false)}, Dims{}))[0] == 0);
}

TEST_CASE("the variance of complex numbers is that of their distance") {
  Kernels kernels;
  const Tensor x =
      kernels.tensor<std::complex<float>>({2}, DType::kC64, {{3, 4}, {-3, -4}});  // 5 from 0
  CHECK(values_of<float>(kernels.run(
            KernelId::kVar, {x, std::monostate{}, Scalar(0), Scalar(false)}, Dims{}))[0] == 25);
}

TEST_CASE("norms of 3, -4, 0 and 12 by order") {
  struct Row {
    double order, norm;
  };
  const Row rows[] = {{0, 3},          {1, 19},         {2, 13},
                      {kInfinity, 12}, {-kInfinity, 0}, {3, std::cbrt(27.0 + 64 + 1728)}};
  Kernels kernels;
  const Tensor x = kernels.f32({4}, {3, -4, 0, 12});
  for (const Row& row : rows) {
    CAPTURE(row.order);
    const Tensor norm = kernels.run(
        KernelId::kVectorNorm,
        {x, Scalar(row.order), std::monostate{}, Scalar(false), std::monostate{}}, Dims{});
    CHECK(values_of<float>(norm)[0] == doctest::Approx(row.norm).epsilon(1e-6));
  }
}

TEST_CASE("norms along a dim of a transposed tensor, and squares beyond f32") {
  Kernels kernels;
  const Tensor lying = kernels.f32({2, 2}, {3, 1e30f, 4, 1e30f});
  const Tensor turned = lying.as_view({{2, 2}, {1, 2}, DType::kF32}, 0);
  const auto norms = values_of<float>(
      kernels.run(KernelId::kVectorNorm,
                  {turned, Scalar(2), Dims{1}, Scalar(false), std::monostate{}}, Dims{2}));
  CHECK(norms[0] == 5);
  CHECK(norms[1] == doctest::Approx(std::sqrt(2.0) * 1e30));
}

TEST_CASE("the norm of nothing is 0, that of complex numbers counts their size, NaN stays") {
  Kernels kernels;
  const auto norm = [&](const Tensor& x, double order) {
    return values_of<float>(kernels.run(
        KernelId::kVectorNorm,
        {x, Scalar(order), std::monostate{}, Scalar(false), std::monostate{}}, Dims{}))[0];
  };
  const Tensor none = kernels.f32({0}, {});
  for (const double order : {0.0, 1.0, 2.0, kInfinity}) CHECK(norm(none, order) == 0);
  const Tensor complex = kernels.tensor<std::complex<float>>({2}, DType::kC64, {{3, 4}, {0, 12}});
  CHECK(norm(complex, 2) == 13);
  CHECK(norm(complex, 1) == 17);
  CHECK(norm(complex, kInfinity) == 12);
  const Tensor broken = kernels.f32({3}, {1, NAN, 2});
  for (const double order : {1.0, 2.0, kInfinity, -kInfinity}) {
    CAPTURE(order);
    CHECK(std::isnan(norm(broken, order)));
  }
}
