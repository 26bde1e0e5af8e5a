// Layer normalisation and the losses over classes, forward and backward, against the definitions in
// double.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

using Floats = std::vector<float>;

struct Normalized {
  Floats output, mean, rstd;
};

Normalized layer_norm(Kernels& kernels, const Tensor& x, const Dims& last, const LocalArg& weight,
                      const LocalArg& bias, double epsilon, const Dims& rows) {
  const Tensor output = empty(kernels.device(), x.shape(), DType::kF32);
  const Tensor mean = empty(kernels.device(), rows, DType::kF32);
  const Tensor rstd = empty(kernels.device(), rows, DType::kF32);
  kernels.run(KernelId::kNativeLayerNorm, {x, last, weight, bias, Scalar(epsilon)},
              std::vector<Tensor>{output, mean, rstd});
  return {values_of<float>(output), values_of<float>(mean), values_of<float>(rstd)};
}

// (self, target, weight, reduction, ignore_index)
struct Loss {
  Floats value;
  float total_weight;
};

Loss nll(Kernels& kernels, const Tensor& scores, const Tensor& target, const LocalArg& weight,
         std::int64_t reduction, const Dims& shape, std::int64_t ignored = -100) {
  const Tensor value = empty(kernels.device(), shape, DType::kF32);
  const Tensor total = empty(kernels.device(), Dims{}, DType::kF32);
  kernels.run(KernelId::kNllLossForward,
              {scores, target, weight, Scalar(reduction), Scalar(ignored)},
              std::vector<Tensor>{value, total});
  return {values_of<float>(value), values_of<float>(total)[0]};
}

}  // namespace

TEST_CASE("a normalised row has mean 0 and variance 1, then weight and bias") {
  Kernels kernels;
  const Tensor x = kernels.f32({2, 2}, {1, 3, -4, 4});  // means 2 and 0, variances 1 and 16
  const auto plain = layer_norm(kernels, x, Dims{2}, std::monostate{}, std::monostate{}, 0, {2, 1});
  CHECK(plain.output == Floats{-1, 1, -1, 1});
  CHECK(plain.mean == Floats{2, 0});
  CHECK(plain.rstd == Floats{1, 0.25f});
  const auto affine = layer_norm(kernels, x, Dims{2}, kernels.f32({2}, {10, 20}),
                                 kernels.f32({2}, {1, 2}), 0, {2, 1});
  CHECK(affine.output == Floats{-9, 22, -9, 22});
}

TEST_CASE("epsilon stands below the root: a constant row becomes the bias") {
  Kernels kernels;
  const Tensor x = kernels.f32({1, 3}, {5, 5, 5});
  const auto got =
      layer_norm(kernels, x, Dims{3}, std::monostate{}, kernels.f32({3}, {1, 2, 3}), 0.25, {1, 1});
  CHECK(got.output == Floats{1, 2, 3});
  CHECK(got.rstd == Floats{2});
}

TEST_CASE("two normalised dims are one row, and the tensor may lie across") {
  Kernels kernels;
  const Tensor lying = kernels.f32({2, 2, 1}, {1, 3, 3, 1});
  const Tensor turned = lying.as_view({{1, 2, 2}, {1, 1, 2}, DType::kF32}, 0);
  const auto got = layer_norm(kernels, turned, Dims{2, 2}, kernels.f32({2, 2}, {1, 2, 3, 4}),
                              std::monostate{}, 0, {1, 1, 1});
  CHECK(got.output == Floats{-1, 2, 3, -4});
}

TEST_CASE("no rows to normalise: gradients of weight and bias are zero") {
  Kernels kernels;
  const Tensor none = kernels.f32({0, 2}, {}), statistics = kernels.f32({0, 1}, {});
  const auto got =
      layer_norm(kernels, none, Dims{2}, std::monostate{}, std::monostate{}, 1e-5, {0, 1});
  CHECK(got.output.empty());
  const Tensor input = empty(kernels.device(), Dims{0, 2}, DType::kF32);
  const Tensor weight = kernels.f32({2}, {9, 9}), bias = kernels.f32({2}, {9, 9});
  kernels.run(KernelId::kNativeLayerNormBackward,
              {none, none, Dims{2}, statistics, statistics, kernels.f32({2}, {1, 1}),
               std::monostate{}, std::monostate{}},
              std::vector<Tensor>{input, weight, bias});
  CHECK(values_of<float>(weight) == Floats{0, 0});
  CHECK(values_of<float>(bias) == Floats{0, 0});
}

// The sum of grad * layer_norm(input) of rows of 3, in double and by the definition.
double normalized_and_summed(const Floats& grad, const std::vector<double>& input,
                             const std::vector<double>& scale, const std::vector<double>& shift) {
  double total = 0;
  for (std::size_t row = 0; row < 2; ++row) {
    double mean = 0, variance = 0;
    for (std::size_t j = 0; j < 3; ++j) mean += input[3 * row + j] / 3;
    for (std::size_t j = 0; j < 3; ++j) {
      variance += (input[3 * row + j] - mean) * (input[3 * row + j] - mean) / 3;
    }
    for (std::size_t j = 0; j < 3; ++j) {
      const double normal = (input[3 * row + j] - mean) / std::sqrt(variance + 0.5);
      total += double(grad[3 * row + j]) * (normal * scale[j] + shift[j]);
    }
  }
  return total;
}

TEST_CASE("the gradients of a layer norm are those of small steps") {
  Kernels kernels;
  const Floats x = {0.5f, -1, 2, 3, 0.25f, -2}, weight = {1.5f, -0.5f, 2},
               bias = {0.1f, 0.2f, 0.3f};
  const Floats grad = {1, -2, 0.5f, 0.75f, 1.25f, -1};
  const auto loss = [&](const auto& input, const auto& scale, const auto& shift) {
    return normalized_and_summed(grad, input, scale, shift);
  };
  const std::vector<double> at_x(x.begin(), x.end()), at_weight(weight.begin(), weight.end()),
      at_bias(bias.begin(), bias.end());
  const auto slope = [&](auto changed) {
    constexpr double kStep = 1e-5;
    return (changed(kStep) - changed(-kStep)) / (2 * kStep);
  };

  const Tensor tx = kernels.f32({2, 3}, x), tw = kernels.f32({3}, weight);
  const Tensor mean = empty(kernels.device(), Dims{2, 1}, DType::kF32);
  const Tensor rstd = empty(kernels.device(), Dims{2, 1}, DType::kF32);
  const Tensor output = empty(kernels.device(), Dims{2, 3}, DType::kF32);
  kernels.run(KernelId::kNativeLayerNorm, {tx, Dims{3}, tw, kernels.f32({3}, bias), Scalar(0.5)},
              std::vector<Tensor>{output, mean, rstd});
  const Tensor dx = empty(kernels.device(), Dims{2, 3}, DType::kF32);
  const Tensor dw = empty(kernels.device(), Dims{3}, DType::kF32);
  const Tensor db = empty(kernels.device(), Dims{3}, DType::kF32);
  kernels.run(KernelId::kNativeLayerNormBackward,
              {kernels.f32({2, 3}, grad), tx, Dims{3}, mean, rstd, tw, kernels.f32({3}, bias),
               std::monostate{}},
              std::vector<Tensor>{dx, dw, db});
  for (std::size_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    const double expected = slope([&](double step) {
      auto moved = at_x;
      moved[i] += step;
      return loss(moved, at_weight, at_bias);
    });
    CHECK(values_of<float>(dx)[i] == doctest::Approx(expected).epsilon(1e-4));
  }
  for (std::size_t j = 0; j < 3; ++j) {
    CAPTURE(j);
    const double by_weight = slope([&](double step) {
      auto moved = at_weight;
      moved[j] += step;
      return loss(at_x, moved, at_bias);
    });
    CHECK(values_of<float>(dw)[j] == doctest::Approx(by_weight).epsilon(1e-4));
    CHECK(values_of<float>(db)[j] == grad[j] + grad[3 + j]);
  }
}

TEST_CASE("a gradient that is not asked for is not written") {
  Kernels kernels;
  const Tensor x = kernels.f32({1, 2}, {1, 3}), grad = kernels.f32({1, 2}, {1, 1});
  const Tensor mean = kernels.f32({1, 1}, {2}), rstd = kernels.f32({1, 1}, {1});
  const Tensor bias = empty(kernels.device(), Dims{2}, DType::kF32);
  kernels.run(KernelId::kNativeLayerNormBackward,
              {grad, x, Dims{2}, mean, rstd, std::monostate{}, std::monostate{}, std::monostate{}},
              std::vector<Tensor>{Tensor(), Tensor(), bias});
  CHECK(values_of<float>(bias) == Floats{1, 1});
}

TEST_CASE("bf16 is normalised in f32: the statistics keep their digits") {
  Kernels kernels;
  const auto bits = [](float value) { return to_bfloat16(value).bits; };
  const Tensor x = kernels.tensor<std::uint16_t>({1, 2}, DType::kBF16, {bits(256), bits(258)});
  const Tensor output = empty(kernels.device(), Dims{1, 2}, DType::kBF16);
  const Tensor mean = empty(kernels.device(), Dims{1, 1}, DType::kF32);
  const Tensor rstd = empty(kernels.device(), Dims{1, 1}, DType::kF32);
  kernels.run(KernelId::kNativeLayerNorm,
              {x, Dims{2}, std::monostate{}, std::monostate{}, Scalar(0.0)},
              std::vector<Tensor>{output, mean, rstd});
  CHECK(values_of<float>(mean) == Floats{257});  // bf16 has no 257
  CHECK(values_of<std::uint16_t>(output) == std::vector<std::uint16_t>{bits(-1), bits(1)});
}

// Rows of a dtype, each in one piece, with some elements between them that belong to none.
Tensor spaced_rows(Kernels& kernels, const Floats& values, std::int64_t rows, DType dtype) {
  const auto size = static_cast<std::int64_t>(values.size()) / rows, step = size + 5;
  const Tensor memory = empty(kernels.device(), Dims{rows * step}, dtype);
  kernels.run(KernelId::kZeros, {}, std::vector<Tensor>{memory});
  const Tensor spaced = memory.as_view({{rows, size}, {step, 1}, dtype}, 0);
  kernels.run(KernelId::kConvert, {kernels.f32({rows, size}, values)}, std::vector<Tensor>{spaced});
  return spaced;
}

std::vector<double> numbers_of(Kernels& kernels, const Tensor& x) {
  return values_of<double>(kernels.run(KernelId::kConvert, {x}, x.shape(), DType::kF64));
}

Floats drawn_numbers(std::int64_t count, std::int64_t seed) {
  Floats drawn;
  for (std::int64_t i = 0; i < count; ++i) {
    drawn.push_back(static_cast<float>((i + seed) * 7919 % 1009 - 500) / 256);
  }
  return drawn;
}

// The definition's results for rows of numbers, with 0.5 below the root.
struct Defined {
  using Row = std::vector<double>;
  Row output, input_gradient, weight_gradient, bias_gradient;

  Defined(std::size_t columns, const Row& x, const Row& grad, const Row& weight, const Row& bias)
      : weight_gradient(columns, 0), bias_gradient(columns, 0) {
    const auto count = static_cast<double>(columns);
    for (std::size_t first = 0; first < x.size(); first += columns) {
      double average = 0, variance = 0, scaled = 0, along = 0;
      for (std::size_t j = 0; j < columns; ++j) average += x[first + j] / count;
      for (std::size_t j = 0; j < columns; ++j) {
        variance += (x[first + j] - average) * (x[first + j] - average) / count;
      }
      const double root = 1 / std::sqrt(variance + 0.5);
      for (std::size_t j = 0; j < columns; ++j) {
        const double normal = (x[first + j] - average) * root, g = grad[first + j];
        output.push_back(normal * weight[j] + bias[j]);
        scaled += g * weight[j] / count;
        along += g * weight[j] * normal / count;
        weight_gradient[j] += g * normal;
        bias_gradient[j] += g;
      }
      for (std::size_t j = 0; j < columns; ++j) {
        const double normal = (x[first + j] - average) * root;
        input_gradient.push_back(root * (grad[first + j] * weight[j] - scaled - normal * along));
      }
    }
  }
};

void check_layer_norm(Kernels& kernels, DType dtype, std::int64_t size) {
  constexpr std::int64_t kRows = 6;  // four together and two by themselves
  const bool half = item_bytes(dtype) == 2;
  const DType wide = half ? DType::kF32 : dtype;
  const auto rows = [&](std::int64_t seed) {
    return spaced_rows(kernels, drawn_numbers(kRows * size, seed), kRows, dtype);
  };
  const auto vector = [&](std::int64_t seed) {
    const Tensor exact = kernels.f32({size}, drawn_numbers(size, seed));
    return kernels.run(KernelId::kConvert, {exact}, Dims{size}, dtype);
  };
  const auto blank = [&](const Dims& shape) { return empty(kernels.device(), shape, wide); };
  const Tensor x = rows(0), grad = rows(17), weight = vector(29), bias = vector(31);
  const Tensor out = rows(3), mean = blank(Dims{kRows, 1}), rstd = blank(Dims{kRows, 1});
  kernels.run(KernelId::kNativeLayerNorm, {x, Dims{size}, weight, bias, Scalar(0.5)},
              std::vector<Tensor>{out, mean, rstd});
  const Tensor dx = rows(3), dw = blank(Dims{size}), db = blank(Dims{size});
  kernels.run(KernelId::kNativeLayerNormBackward, {grad, x, Dims{size}, mean, rstd, weight, bias},
              std::vector<Tensor>{dx, dw, db});

  const Defined defined(static_cast<std::size_t>(size), numbers_of(kernels, x),
                        numbers_of(kernels, grad), numbers_of(kernels, weight),
                        numbers_of(kernels, bias));
  const auto near = [&](const Tensor& got, const std::vector<double>& expected) {
    const double most = half ? 4e-2 : 1e-4;
    return std::ranges::equal(numbers_of(kernels, got), expected,
                              [&](double a, double b) { return std::abs(a - b) < most; });
  };
  CHECK(near(out, defined.output));
  CHECK(near(dx, defined.input_gradient));
  CHECK(near(dw, defined.weight_gradient));
  CHECK(near(db, defined.bias_gradient));
}

TEST_CASE("rows of every dtype and length are normalised as the definition says, and backward") {
  Kernels kernels;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (const std::int64_t size : {1, 7, 8, 33, 520, 1030}) {
      CAPTURE(to_string(dtype));
      CAPTURE(size);
      check_layer_norm(kernels, dtype, size);
    }
  }
}

TEST_CASE("negative log likelihood: none, mean and sum") {
  Kernels kernels;
  const Tensor scores = kernels.f32({3, 2}, {-1, -2, -3, -4, -5, -6});
  const Tensor target = kernels.i64({3}, {1, 0, 1});
  const auto none = std::monostate{};
  CHECK(nll(kernels, scores, target, none, 0, {3}).value == Floats{2, 3, 6});
  CHECK(nll(kernels, scores, target, none, 2, {}).value == Floats{11});
  const Loss mean = nll(kernels, scores, target, none, 1, {});
  CHECK(mean.value[0] == doctest::Approx(11.0 / 3));
  CHECK(mean.total_weight == 3);
}

TEST_CASE("weights of classes weigh the mean, ignored samples take no part") {
  Kernels kernels;
  const Tensor scores = kernels.f32({3, 2}, {-1, -2, -3, -4, -5, -6});
  const Tensor target = kernels.i64({3}, {1, 0, -7}), weight = kernels.f32({2}, {3, 0.5f});
  const Loss mean = nll(kernels, scores, target, weight, 1, {}, -7);
  CHECK(mean.total_weight == 3.5f);
  CHECK(mean.value[0] == doctest::Approx((2 * 0.5 + 3 * 3.0) / 3.5));
  CHECK(nll(kernels, scores, target, weight, 0, {3}, -7).value == Floats{1, 9, 0});
  CHECK(nll(kernels, scores, target, weight, 2, {}, -7).value == Floats{10});
}

TEST_CASE("the mean over no samples is NaN, their sum is 0") {
  Kernels kernels;
  const Tensor scores = kernels.f32({0, 2}, {}), target = kernels.i64({0}, {});
  CHECK(std::isnan(nll(kernels, scores, target, std::monostate{}, 1, {}).value[0]));
  CHECK(nll(kernels, scores, target, std::monostate{}, 2, {}).value == Floats{0});
  CHECK(nll(kernels, scores, target, std::monostate{}, 0, {0}).value.empty());
  const Tensor one = kernels.f32({1, 2}, {-1, -2}), ignored = kernels.i64({1}, {-100});
  CHECK(std::isnan(nll(kernels, one, ignored, std::monostate{}, 1, {}).value[0]));
}

TEST_CASE("one sample without a batch dim") {
  Kernels kernels;
  const Tensor scores = kernels.f32({3}, {-1, -2, -4}), target = kernels.i64({}, {2});
  CHECK(nll(kernels, scores, target, std::monostate{}, 1, {}).value == Floats{4});
}

TEST_CASE("the gradient of the loss stands at the class of each sample") {
  Kernels kernels;
  const Tensor scores = kernels.f32({3, 2}, {-1, -2, -3, -4, -5, -6});
  const Tensor target = kernels.i64({3}, {1, -100, 0}), weight = kernels.f32({2}, {3, 0.5f});
  const auto gradient = [&](const Tensor& grad, std::int64_t reduction, float total) {
    return values_of<float>(kernels.run(
        KernelId::kNllLossBackward,
        {grad, scores, target, weight, Scalar(reduction), Scalar(-100), kernels.f32({}, {total})},
        Dims{3, 2}));
  };
  CHECK(gradient(kernels.f32({}, {2}), 2, 3.5f) == Floats{0, -1, 0, 0, -6, 0});
  CHECK(gradient(kernels.f32({}, {7}), 1, 3.5f) == Floats{0, -1, 0, 0, -6, 0});
  CHECK(gradient(kernels.f32({3}, {10, 20, 30}), 0, 0) == Floats{0, -5, 0, 0, -90, 0});
}
