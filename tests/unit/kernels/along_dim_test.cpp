// Softmax, running sums and sorting along one dim, against sums written out in double and against
// sorting in the standard library.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// exp(x_i) / sum of exp(x_j), by the definition.
std::vector<double> softmax_of(const std::vector<float>& row) {
  double total = 0;
  std::vector<double> powers;
  for (const float x : row) powers.push_back(std::exp(double(x)));
  for (const double power : powers) total += power;
  for (double& power : powers) power /= total;
  return powers;
}

struct Sorted {
  std::vector<float> values;
  std::vector<std::int64_t> indices;
};

// (self, dim, descending)
Sorted sorted(Kernels& kernels, const Tensor& x, std::int64_t dim, bool descending) {
  const Tensor values = empty(kernels.device(), x.shape(), DType::kF32);
  const Tensor indices = empty(kernels.device(), x.shape(), DType::kI64);
  kernels.run(KernelId::kSort, {x, Scalar(dim), Scalar(descending)},
              std::vector<Tensor>{values, indices});
  return {values_of<float>(values), values_of<std::int64_t>(indices)};
}

}  // namespace

TEST_CASE("softmax: each row divided by its own sum, along the last dim") {
  Kernels kernels;
  const std::vector<float> first = {0, 1, 2}, second = {-3, 0.5f, 4};
  const Tensor x = kernels.f32({2, 3}, {0, 1, 2, -3, 0.5f, 4});
  const auto got =
      values_of<float>(kernels.run(KernelId::kSoftmax, {x, Scalar(-1), Scalar(false)}, Dims{2, 3}));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(got[i] == doctest::Approx(softmax_of(first)[i]).epsilon(1e-6));
    CHECK(got[3 + i] == doctest::Approx(softmax_of(second)[i]).epsilon(1e-6));
  }
}

TEST_CASE("columns beside each other, taken in blocks, give what each gives alone") {
  // Groups of 1, 31, 32, 33 and 70 columns: whole blocks, a part of one, and two groups.
  for (const std::int64_t width : {1, 31, 32, 33, 70}) {
    CAPTURE(width);
    Kernels kernels;
    constexpr std::int64_t kGroups = 2, kHeight = 5;
    std::vector<float> elements;
    for (std::int64_t i = 0; i < kGroups * kHeight * width; ++i) {
      elements.push_back(static_cast<float>(i * 37 % 101) / 16);
    }
    const Dims shape{kGroups, kHeight, width};
    const Tensor x = kernels.f32(shape, elements);
    const auto softmax =
        values_of<float>(kernels.run(KernelId::kSoftmax, {x, Scalar(1), Scalar(false)}, shape));
    const auto sums = values_of<float>(kernels.run(KernelId::kCumsum, {x, Scalar(1)}, shape));
    const Sorted order = sorted(kernels, x, 1, true);
    for (std::int64_t column = 0; column < kGroups * width; ++column) {
      const std::int64_t first = column / width * kHeight * width + column % width;
      std::vector<float> own;
      for (std::int64_t i = 0; i < kHeight; ++i) {
        own.push_back(elements[static_cast<std::size_t>(first + i * width)]);
      }
      const std::vector<double> parts = softmax_of(own);
      std::vector<float> falling = own;
      std::ranges::sort(falling, std::greater<>());
      float sum = 0;
      for (std::int64_t i = 0; i < kHeight; ++i) {
        const auto at = static_cast<std::size_t>(first + i * width),
                   row = static_cast<std::size_t>(i);
        sum += own[row];
        CHECK(softmax[at] == doctest::Approx(parts[row]).epsilon(1e-6));
        CHECK(sums[at] == sum);
        CHECK(order.values[at] == falling[row]);
        CHECK(own[static_cast<std::size_t>(order.indices[at])] == falling[row]);
      }
    }
  }
}

TEST_CASE("results down columns have the bits of those along the same rows") {
  struct Case {
    KernelId kernel;
    bool two;  // inputs
  };
  const Case cases[] = {{KernelId::kSoftmax, false},        {KernelId::kLogSoftmax, false},
                        {KernelId::kSoftmaxBackward, true}, {KernelId::kLogSoftmaxBackward, true},
                        {KernelId::kCumsum, false},         {KernelId::kCumprod, false}};
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    for (const std::int64_t height : {1, 5, 33, 130, 700}) {
      for (const std::int64_t width : {8, 31, 70}) {
        CAPTURE(to_string(dtype));
        CAPTURE(height);
        CAPTURE(width);
        Kernels kernels;
        const Dims down{2, height, width}, along{2, width, height};
        // The same numbers in either layout, some of them infinite or NaN.
        const auto lying = [&](const Dims& shape, std::int64_t seed) {
          std::vector<float> values;
          for (std::int64_t i = 0; i < 2 * height * width; ++i) {
            const std::int64_t inner = i % (height * width), group = i - inner;
            const std::int64_t at =
                shape == down ? i : group + inner % height * width + inner / height;
            const std::int64_t drawn = (at + seed) * 7919 % 1009;
            const bool odd = at % width % 7 == 3;  // columns with ends in them
            values.push_back(odd && drawn < 20 ? (drawn < 7    ? kNan
                                                  : drawn < 14 ? kInfinity
                                                               : -kInfinity)
                                               : static_cast<float>(drawn) / 256 - 2);
          }
          const Tensor exact = kernels.f32(shape, values);
          return kernels.run(KernelId::kConvert, {exact}, shape, dtype);
        };
        for (const Case& one : cases) {
          const auto result = [&](const Dims& shape, std::int64_t dim) {
            std::vector<LocalArg> args{lying(shape, 0)};
            if (one.two) args.emplace_back(lying(shape, 5));
            args.insert(args.end(), {Scalar(dim), Scalar(false)});
            const Tensor out = kernels.run(one.kernel, args, shape, dtype);
            const Tensor turned_out =
                dim == 1 ? out : out.as_view({down, {height * width, 1, height}, dtype}, 0);
            return values_of<double>(
                kernels.run(KernelId::kConvert, {turned_out}, down, DType::kF64));
          };
          const std::vector<double> columns = result(down, 1), rows = result(along, 2);
          const bool same = std::ranges::equal(columns, rows, [](double a, double b) {
            return a == b || (std::isnan(a) && std::isnan(b));
          });
          CHECK(same);
        }
      }
    }
  }
}

TEST_CASE("running sums of several rows at once are those of each row") {
  Kernels kernels;
  std::vector<float> values, expected;
  for (int row = 0; row < 7; ++row) {
    double sum = 0;
    for (int i = 0; i < 37; ++i) {
      values.push_back(static_cast<float>((row * 37 + i) * 7919 % 1009) / 3);
      sum += double(values.back());
      expected.push_back(static_cast<float>(sum));
    }
  }
  const Tensor x = kernels.f32({7, 37}, values);
  CHECK(values_of<float>(kernels.run(KernelId::kCumsum, {x, Scalar(1)}, Dims{7, 37})) == expected);
  kernels.run(KernelId::kCumsum, {x, Scalar(1)}, std::vector<Tensor>{x});
  CHECK(values_of<float>(x) == expected);
}

TEST_CASE("softmax along the first dim of a transposed tensor is that of its columns") {
  Kernels kernels;
  const Tensor lying = kernels.f32({2, 3}, {0, 1, 2, -3, 0.5f, 4});
  const Tensor turned = lying.as_view({{3, 2}, {1, 3}, DType::kF32}, 0);
  const auto got = values_of<float>(
      kernels.run(KernelId::kSoftmax, {turned, Scalar(0), Scalar(false)}, Dims{3, 2}));
  const auto first = softmax_of({0, 1, 2}), second = softmax_of({-3, 0.5f, 4});
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(got[2 * i] == doctest::Approx(first[i]).epsilon(1e-6));
    CHECK(got[2 * i + 1] == doctest::Approx(second[i]).epsilon(1e-6));
  }
}

TEST_CASE("softmax down the columns of more than 8 MiB gives each column its own parts") {
  // Lines that begin cache lines, and others; columns beyond a group.
  for (const std::int64_t width : {1040, 1033}) {
    constexpr std::int64_t kHeight = 2100;
    std::vector<float> elements;
    for (std::int64_t i = 0; i < kHeight * width; ++i) {
      elements.push_back(static_cast<float>(i * 37 % 1009) / 128);
    }
    Kernels kernels;
    const Dims shape{kHeight, width};
    const auto got = values_of<float>(kernels.run(
        KernelId::kSoftmax, {kernels.f32(shape, elements), Scalar(0), Scalar(false)}, shape));
    double worst = 0;
    for (std::int64_t column = 0; column < width; ++column) {
      std::vector<float> own;
      for (std::int64_t i = 0; i < kHeight; ++i) {
        own.push_back(elements[static_cast<std::size_t>(column + i * width)]);
      }
      const std::vector<double> parts = softmax_of(own);
      for (std::int64_t i = 0; i < kHeight; ++i) {
        const double part = parts[static_cast<std::size_t>(i)];
        const double value = got[static_cast<std::size_t>(column + i * width)];
        worst = std::max(worst, std::abs(value - part) / part);
      }
    }
    CAPTURE(width);
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("softmax does not overflow: a thousand more on every element changes nothing") {
  Kernels kernels;
  const Tensor x = kernels.f32({2, 2}, {1000, 1001, -1000, -1001});
  const auto got =
      values_of<float>(kernels.run(KernelId::kSoftmax, {x, Scalar(1), Scalar(false)}, Dims{2, 2}));
  const double large = 1 / (1 + std::exp(-1.0)), small = 1 / (1 + std::exp(1.0));
  CHECK(got[0] == doctest::Approx(small).epsilon(1e-6));
  CHECK(got[1] == doctest::Approx(large).epsilon(1e-6));
  CHECK(got[2] == doctest::Approx(large).epsilon(1e-6));
  CHECK(got[3] == doctest::Approx(small).epsilon(1e-6));
}

TEST_CASE("softmax: -inf has no share, a row of nothing but -inf is NaN, NaN spreads in its row") {
  Kernels kernels;
  const Tensor x = kernels.f32({3, 2}, {-kInfinity, 3, -kInfinity, -kInfinity, kNan, 1});
  const auto got =
      values_of<float>(kernels.run(KernelId::kSoftmax, {x, Scalar(1), Scalar(false)}, Dims{3, 2}));
  CHECK(got[0] == 0);
  CHECK(got[1] == 1);
  for (std::size_t i = 2; i < 6; ++i) CHECK(std::isnan(got[i]));
}

TEST_CASE("softmax of empty tensors, of one element and without dims") {
  Kernels kernels;
  const std::vector<LocalArg> rest = {Scalar(0), Scalar(false)};
  const Tensor none = kernels.f32({0, 3}, {}), thin = kernels.f32({3, 0}, {});
  CHECK(kernels.run(KernelId::kSoftmax, {none, Scalar(1), Scalar(false)}, Dims{0, 3}).numel() == 0);
  CHECK(kernels.run(KernelId::kSoftmax, {thin, Scalar(1), Scalar(false)}, Dims{3, 0}).numel() == 0);
  const Tensor scalar = kernels.f32({}, {-7});
  CHECK(values_of<float>(kernels.run(KernelId::kSoftmax, {scalar, rest[0], rest[1]}, Dims{})) ==
        std::vector<float>{1});
}

TEST_CASE("log_softmax is the logarithm of softmax, and exact where softmax underflows") {
  Kernels kernels;
  const Tensor x = kernels.f32({2, 3}, {0, 1, 2, 0, -200, -300});
  const auto got = values_of<float>(
      kernels.run(KernelId::kLogSoftmax, {x, Scalar(1), Scalar(false)}, Dims{2, 3}));
  const auto shares = softmax_of({0, 1, 2});
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(got[i] == doctest::Approx(std::log(shares[i])).epsilon(1e-6));
  }
  CHECK(got[3] == 0);
  CHECK(got[4] == -200);  // softmax is 0 here, whose logarithm is -inf
  CHECK(got[5] == -300);
}

TEST_CASE("bf16 softmax is computed in f32 and rounded once") {
  Kernels kernels;
  const auto bits = [](float value) { return to_bfloat16(value).bits; };
  const Tensor x = kernels.tensor<std::uint16_t>({3}, DType::kBF16, {bits(0), bits(1), bits(2)});
  const Tensor got =
      kernels.run(KernelId::kSoftmax, {x, Scalar(0), Scalar(false)}, Dims{3}, DType::kBF16);
  const auto shares = softmax_of({0, 1, 2});
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(values_of<std::uint16_t>(got)[i] == bits(float(shares[i])));
  }
}

TEST_CASE("the gradient of softmax: y * (g - sum of g * y)") {
  Kernels kernels;
  const Tensor y = kernels.f32({2, 2}, {0.25f, 0.75f, 0.5f, 0.5f});
  const Tensor grad = kernels.f32({2, 2}, {1, 3, -2, 2});
  const auto got = values_of<float>(
      kernels.run(KernelId::kSoftmaxBackward, {grad, y, Scalar(1), DType::kF32}, Dims{2, 2}));
  // First row: the dot product is 0.25 + 2.25 = 2.5; second row: 0.
  CHECK(got == std::vector<float>{-0.375f, 0.375f, -1, 1});
}

TEST_CASE("the gradient of log_softmax: g - exp(y) * sum of g") {
  Kernels kernels;
  const float half = std::log(0.5f);
  const Tensor y = kernels.f32({2, 2}, {half, half, 0, -kInfinity});
  const Tensor grad = kernels.f32({2, 2}, {1, 3, 5, 7});
  const auto got = values_of<float>(
      kernels.run(KernelId::kLogSoftmaxBackward, {grad, y, Scalar(1), DType::kF32}, Dims{2, 2}));
  CHECK(got[0] == doctest::Approx(-1));
  CHECK(got[1] == doctest::Approx(1));
  CHECK(got[2] == doctest::Approx(-7));
  CHECK(got[3] == doctest::Approx(7));
}

TEST_CASE("running sums go along their dim only") {
  Kernels kernels;
  const Tensor x = kernels.f32({2, 3}, {1, 2, 3, 10, 20, 30});
  CHECK(values_of<float>(kernels.run(KernelId::kCumsum, {x, Scalar(1)}, Dims{2, 3})) ==
        std::vector<float>{1, 3, 6, 10, 30, 60});
  CHECK(values_of<float>(kernels.run(KernelId::kCumsum, {x, Scalar(0)}, Dims{2, 3})) ==
        std::vector<float>{1, 2, 3, 11, 22, 33});
  const Tensor none = kernels.f32({2, 0}, {});
  CHECK(kernels.run(KernelId::kCumsum, {none, Scalar(1)}, Dims{2, 0}).numel() == 0);
}

TEST_CASE("running sums of f32 keep in double what f32 would lose") {
  Kernels kernels;
  const Tensor x = kernels.f32({3}, {16777216, 1, 1});  // 2^24: f32 has no 2^24 + 1
  CHECK(values_of<float>(kernels.run(KernelId::kCumsum, {x, Scalar(0)}, Dims{3})) ==
        std::vector<float>{16777216, 16777216, 16777218});
}

TEST_CASE("running sums of integers wrap, and of i8 into i64 they do not") {
  Kernels kernels;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Tensor x = kernels.i64({2}, {kMost, 2});
  CHECK(values_of<std::int64_t>(
            kernels.run(KernelId::kCumsum, {x, Scalar(0)}, Dims{2}, DType::kI64)) ==
        std::vector<std::int64_t>{kMost, std::numeric_limits<std::int64_t>::min() + 1});
  const Tensor bytes = kernels.tensor<std::int8_t>({3}, DType::kI8, {127, 127, 127});
  CHECK(values_of<std::int64_t>(
            kernels.run(KernelId::kCumsum, {bytes, Scalar(0)}, Dims{3}, DType::kI64)) ==
        std::vector<std::int64_t>{127, 254, 381});
}

TEST_CASE("sorting rows and columns gives values and where they were") {
  Kernels kernels;
  const Tensor x = kernels.f32({2, 3}, {3, 1, 2, 6, 5, 7});
  const Sorted rows = sorted(kernels, x, 1, false);
  CHECK(rows.values == std::vector<float>{1, 2, 3, 5, 6, 7});
  CHECK(rows.indices == std::vector<std::int64_t>{1, 2, 0, 1, 0, 2});
  const Sorted columns = sorted(kernels, x, 0, true);
  CHECK(columns.values == std::vector<float>{6, 5, 7, 3, 1, 2});
  CHECK(columns.indices == std::vector<std::int64_t>{1, 1, 1, 0, 0, 0});
}

TEST_CASE("sorting is stable in both directions") {
  Kernels kernels;
  const Tensor x = kernels.f32({5}, {2, 1, 2, 1, 2});
  CHECK(sorted(kernels, x, 0, false).indices == std::vector<std::int64_t>{1, 3, 0, 2, 4});
  CHECK(sorted(kernels, x, 0, true).indices == std::vector<std::int64_t>{0, 2, 4, 1, 3});
}

TEST_CASE("NaN sorts as the largest number, behind infinity") {
  Kernels kernels;
  const Tensor x = kernels.f32({5}, {kNan, 1, kInfinity, -kInfinity, kNan});
  CHECK(sorted(kernels, x, 0, false).indices == std::vector<std::int64_t>{3, 1, 2, 0, 4});
  CHECK(sorted(kernels, x, 0, true).indices == std::vector<std::int64_t>{0, 4, 2, 1, 3});
}

TEST_CASE("a long row is sorted as the standard library sorts it") {
  Kernels kernels;
  std::vector<float> numbers;
  std::uint32_t state = 7;
  for (int i = 0; i < 1000; ++i) {
    state = state * 1664525u + 1013904223u;
    numbers.push_back(float(state >> 24));  // many are equal
  }
  const Sorted got = sorted(kernels, kernels.f32({1000}, numbers), 0, false);
  std::vector<std::int64_t> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  std::ranges::stable_sort(expected, [&](std::int64_t a, std::int64_t b) {
    return numbers[std::size_t(a)] < numbers[std::size_t(b)];
  });
  CHECK(got.indices == expected);
}

TEST_CASE("topk takes the smallest where it is asked to, along any dim, none and all") {
  Kernels kernels;
  const Tensor x = kernels.f32({3, 2}, {5, 1, 4, 9, 6, 3});
  const auto take = [&](std::int64_t k, std::int64_t dim, bool largest, const Dims& shape) {
    const Tensor values = empty(kernels.device(), shape, DType::kF32);
    const Tensor indices = empty(kernels.device(), shape, DType::kI64);
    kernels.run(KernelId::kTopk, {x, Scalar(k), Scalar(dim), Scalar(largest), Scalar(true)},
                std::vector<Tensor>{values, indices});
    return Sorted{values_of<float>(values), values_of<std::int64_t>(indices)};
  };
  CHECK(take(2, 0, false, Dims{2, 2}).values == std::vector<float>{4, 1, 5, 3});
  CHECK(take(2, 0, false, Dims{2, 2}).indices == std::vector<std::int64_t>{1, 0, 0, 2});
  CHECK(take(1, 1, true, Dims{3, 1}).values == std::vector<float>{5, 9, 6});
  CHECK(take(3, 0, true, Dims{3, 2}).values == std::vector<float>{6, 9, 5, 3, 4, 1});
  CHECK(take(0, 1, true, Dims{3, 0}).values.empty());
}

TEST_CASE("V-28 rows that are copied a group at a time add up like a plain loop, in place, too") {
  // A part of the last kept dim, all but a part, and all with a part of the dim before; rows longer
  // than the room for a group; one group of all; none.
  for (const Dims& shape : {Dims{3, 400, 500}, Dims{2, 300, 110}, Dims{7, 300, 4, 40},
                            Dims{4, 9000, 35}, Dims{2, 3, 2}, Dims{0, 3, 2}, Dims{3, 2, 0}}) {
    CAPTURE(product(shape));
    Kernels kernels;
    std::vector<std::int64_t> elements;
    for (std::int64_t i = 0; i < product(shape); ++i) elements.push_back(i * i % 1009 - 400);
    std::vector<std::int64_t> expected = elements;
    const std::int64_t behind = product(shape) == 0 ? 1 : product(shape) / (shape[0] * shape[1]);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      if (at / behind % shape[1] != 0) expected[i] += expected[i - std::size_t(behind)];
    }
    const Tensor x = kernels.i64(shape, elements);
    const std::vector<LocalArg> args = {x, Scalar(1)};
    const Tensor apart = kernels.run(KernelId::kCumsum, args, shape, DType::kI64);
    CHECK(values_of<std::int64_t>(apart) == expected);
    kernels.run(KernelId::kCumsum, args, std::vector<Tensor>{x});
    CHECK(values_of<std::int64_t>(x) == expected);
  }
}
