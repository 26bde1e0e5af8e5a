// Reductions of rows of every length around the lanes and leaves, along both ways through memory.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

// One lane, all lanes, lanes and a rest, one leaf, several.
constexpr std::int64_t kLengths[] = {1, 31, 32, 33, 70, 512, 513, 1100, 1601};
constexpr std::int64_t kColumns = 9;

/// kColumns rows of `length` elements: element i of row c is value(i, c).
template <typename Value>
Tensor rows_of(Kernels& kernels, std::int64_t length, Value value) {
  std::vector<float> values;
  for (std::int64_t c = 0; c < kColumns; ++c) {
    for (std::int64_t i = 0; i < length; ++i) values.push_back(value(i, c));
  }
  return kernels.f32({kColumns, length}, values);
}

/// Reduced row by row, and down the columns of the same rows turned.
void check_both_ways(KernelId kernel, const std::function<float(std::int64_t, std::int64_t)>& value,
                     const std::function<float(std::int64_t, std::int64_t)>& expected) {
  Kernels kernels;
  for (const std::int64_t length : kLengths) {
    CAPTURE(length);
    const Tensor x = rows_of(kernels, length, value);
    const Tensor turned =
        clone_contiguous(x.as_view({{length, kColumns}, {1, length}, DType::kF32}, 0));
    const Dims shape{kColumns};
    const auto across = values_of<float>(kernels.run(kernel, {x, Dims{1}}, shape));
    const auto down = values_of<float>(kernels.run(kernel, {turned, Dims{0}}, shape));
    for (std::int64_t c = 0; c < kColumns; ++c) {
      CHECK(across[static_cast<std::size_t>(c)] == expected(length, c));
      CHECK(down[static_cast<std::size_t>(c)] == expected(length, c));
    }
  }
}

}  // namespace

TEST_CASE("V-14 a sum has every element once") {
  check_both_ways(
      KernelId::kSum, [](std::int64_t i, std::int64_t c) { return static_cast<float>(i + c); },
      [](std::int64_t length, std::int64_t c) {
        return static_cast<float>(length * (length - 1) / 2 + length * c);
      });
}

TEST_CASE("V-14 the largest of negative numbers, the smallest of positive ones") {
  check_both_ways(
      KernelId::kAmax,
      [](std::int64_t i, std::int64_t c) { return static_cast<float>(-1 - i - c); },
      [](std::int64_t, std::int64_t c) { return static_cast<float>(-1 - c); });
  check_both_ways(
      KernelId::kAmin, [](std::int64_t i, std::int64_t c) { return static_cast<float>(1 + i + c); },
      [](std::int64_t, std::int64_t c) { return static_cast<float>(1 + c); });
  check_both_ways(
      KernelId::kAmax, [](std::int64_t i, std::int64_t c) { return static_cast<float>(i - c); },
      [](std::int64_t length, std::int64_t c) { return static_cast<float>(length - 1 - c); });
}

TEST_CASE("V-14 rows in pieces, and in another dtype, have every element once") {
  Kernels kernels;
  for (const std::int64_t piece : {3, 8, 70, 600}) {
    CAPTURE(piece);
    std::vector<float> values;
    for (std::int64_t i = 0; i < 5 * 3 * piece; ++i) values.push_back(static_cast<float>(i % 7));
    std::vector<float> expected(3, 0.0F);
    for (std::size_t i = 0; i < values.size(); ++i) {
      expected[i / static_cast<std::size_t>(piece) % 3] += values[i];
    }
    const Tensor x = kernels.f32({5, 3, piece}, values);
    const auto sum_of = [&](const Tensor& terms, DType dtype) {
      return kernels.run(KernelId::kSum, {terms, Dims{0, 2}}, Dims{3}, dtype);
    };
    CHECK(values_of<float>(sum_of(x, DType::kF32)) == expected);
    const Tensor narrow = kernels.run(KernelId::kConvert, {x}, {5, 3, piece}, DType::kI32);
    const auto sums = values_of<std::int64_t>(sum_of(narrow, DType::kI64));
    CHECK(std::vector<float>(sums.begin(), sums.end()) == expected);
  }
}

TEST_CASE("V-14 extrema of integers") {
  Kernels kernels;
  const Tensor x = kernels.i64({2, 3}, {-6, -3, -5, 6, 3, 5});
  const auto of = [&](KernelId kernel) {
    return values_of<std::int64_t>(kernels.run(kernel, {x, Dims{1}}, Dims{2}, DType::kI64));
  };
  CHECK(of(KernelId::kAmax) == std::vector<std::int64_t>{-3, 6});
  CHECK(of(KernelId::kAmin) == std::vector<std::int64_t>{-6, 3});
}

TEST_CASE("V-14 a NaN anywhere is the largest and the smallest") {
  Kernels kernels;
  for (const std::int64_t length : {70, 300}) {
    for (const std::int64_t at : {0, 31, 32, 69}) {
      for (const std::int64_t column : {4, 8}) {
        const Tensor x = rows_of(kernels, length, [&](std::int64_t i, std::int64_t c) {
          return i == at && c == column ? NAN : static_cast<float>(i);
        });
        const Tensor down = clone_contiguous(turned(x));
        for (const KernelId kernel : {KernelId::kAmax, KernelId::kAmin}) {
          const auto result = values_of<float>(kernels.run(kernel, {x, Dims{1}}, Dims{kColumns}));
          const auto below = values_of<float>(kernels.run(kernel, {down, Dims{0}}, Dims{kColumns}));
          const float extremum = kernel == KernelId::kAmax ? static_cast<float>(length - 1) : 0.0f;
          for (std::size_t c = 0; c < result.size(); ++c) {
            const bool is_nan = c == static_cast<std::size_t>(column);
            CHECK((is_nan ? std::isnan(result[c]) : result[c] == extremum));
            CHECK((is_nan ? std::isnan(below[c]) : below[c] == extremum));
          }
        }
      }
    }
  }
}

TEST_CASE("V-14 products, means and truth") {
  Kernels kernels;
  const Tensor x = kernels.f32({2, 3}, {2, -3, 4, 1, 0, 5});
  const auto of = [&](KernelId kernel) {
    return values_of<float>(kernels.run(kernel, {x, Dims{1}}, Dims{2}));
  };
  CHECK(of(KernelId::kProd) == std::vector<float>{-24, 0});
  CHECK(of(KernelId::kMean) == std::vector<float>{1, 2});
  const auto truth = [&](KernelId kernel) {
    return values_of<std::uint8_t>(kernels.run(kernel, {x, Dims{1}}, Dims{2}, DType::kBool));
  };
  CHECK(truth(KernelId::kAll) == std::vector<std::uint8_t>{1, 0});
  CHECK(truth(KernelId::kAny) == std::vector<std::uint8_t>{1, 1});
}

TEST_CASE("V-14 the index of an extremum is the lowest of equals, the last element included") {
  Kernels kernels;
  const Tensor x = kernels.f32({3, 4}, {1, 7, 7, 2, 3, 1, 1, 9, 4, 3, 2, 1});
  const auto of = [&](KernelId kernel) {
    return values_of<std::int64_t>(kernels.run(kernel, {x, Scalar(1)}, Dims{3}, DType::kI64));
  };
  CHECK(of(KernelId::kArgmax) == std::vector<std::int64_t>{1, 3, 0});
  CHECK(of(KernelId::kArgmin) == std::vector<std::int64_t>{0, 1, 3});
}

TEST_CASE("V-14 the index of an extremum down columns and along rows is the one a loop finds") {
  Kernels kernels;
  const auto better = [](float a, float b, bool largest) {
    return (std::isnan(a) && !std::isnan(b)) || (largest ? a > b : a < b);
  };
  for (const Dims& shape : {Dims{70, 9}, Dims{40, 8}, Dims{3, 700}, Dims{600, 33}, Dims{1, 20},
                            Dims{4, 9}, Dims{9, 2100}}) {
    // Long rows have their extremum in any leaf, and NaN in a few.
    const bool is_long = shape[1] > 2000;
    const std::int64_t numbers_of = is_long ? 100'003 : 23, nan_each = is_long ? 5003 : 211;
    std::vector<float> x;
    for (std::int64_t i = 0; i < product(shape); ++i) {
      const std::int64_t number = i * i * 7919 % numbers_of - numbers_of / 2;
      x.push_back(i % nan_each == 37 ? std::nanf("") : static_cast<float>(number));
    }
    const auto at = [&](std::int64_t row, std::int64_t column) {
      return x[static_cast<std::size_t>(row * shape[1] + column)];
    };
    const Tensor matrix = kernels.f32(shape, x);
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      const Tensor in = kernels.run(KernelId::kConvert, {matrix}, shape, dtype);
      for (const bool largest : {true, false}) {
        for (const std::int64_t dim : {0, 1}) {
          const std::int64_t kept = shape[static_cast<std::size_t>(1 - dim)];
          const Tensor values = empty(kernels.device(), Dims{kept}, dtype);
          const Tensor indices = empty(kernels.device(), Dims{kept}, DType::kI64);
          kernels.run(largest ? KernelId::kMaxDim : KernelId::kMinDim, {in, Scalar(dim)},
                      std::vector<Tensor>{values, indices});
          const auto found = values_of<std::int64_t>(indices);
          const auto numbers =
              values_of<float>(kernels.run(KernelId::kConvert, {values}, Dims{kept}));
          const Tensor again = kernels.run(largest ? KernelId::kArgmax : KernelId::kArgmin,
                                           {in, Scalar(dim)}, Dims{kept}, DType::kI64);
          CHECK(values_of<std::int64_t>(again) == found);
          for (std::int64_t k = 0; k < kept; ++k) {
            const auto element = [&](std::int64_t i) { return dim == 0 ? at(i, k) : at(k, i); };
            std::int64_t best = 0;
            for (std::int64_t i = 1; i < shape[static_cast<std::size_t>(dim)]; ++i) {
              if (better(element(i), element(best), largest)) best = i;
            }
            CAPTURE(k);
            CHECK(found[static_cast<std::size_t>(k)] == best);
            const float number = numbers[static_cast<std::size_t>(k)];
            CHECK((number == element(best) || (std::isnan(number) && std::isnan(element(best)))));
          }
        }
      }
    }
  }
}

// numpy: var([1, 2, 4, 9]) with ddof 0, 1, 2, and its norms.
TEST_CASE("V-14 variances by their correction, norms by their order") {
  Kernels kernels;
  const Tensor x = kernels.f32({4}, {1, 2, 4, 9});
  const auto var = [&](KernelId kernel, std::int64_t correction) {
    return values_of<float>(kernels.run(kernel, {x, Dims{0}, Scalar(correction)}, Dims{}))[0];
  };
  CHECK(var(KernelId::kVar, 0) == 9.5F);
  CHECK(var(KernelId::kVar, 1) == doctest::Approx(12.6666667));
  CHECK(var(KernelId::kVar, 2) == 19.0F);
  CHECK(var(KernelId::kStd, 2) == doctest::Approx(4.3588989));
  const Tensor y = kernels.f32({4}, {-3, 4, 0, 1});
  const auto norm = [&](double order) {
    return values_of<float>(kernels.run(KernelId::kVectorNorm, {y, Scalar(order)}, Dims{}))[0];
  };
  CHECK(norm(0) == 3);
  CHECK(norm(1) == 8);
  CHECK(norm(2) == doctest::Approx(5.0990195));
  CHECK(norm(3) == doctest::Approx(4.5143574));
  CHECK(norm(INFINITY) == 4);
  CHECK(norm(-INFINITY) == 0);
}
