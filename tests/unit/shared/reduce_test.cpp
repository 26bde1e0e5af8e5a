// Combining the arrays of many ranks: dtypes, identities, NaN, and the cuts into blocks.
#include "backends/shared/reduce.h"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <vector>

using namespace shardlab;
using namespace shardlab::backends;

namespace {

const float kNaN = std::nanf("");

/// The arrays of all ranks in one row each, combined.
template <typename T>
std::vector<T> reduced(DType dtype, ReduceOp op, const std::vector<std::vector<T>>& ranks) {
  std::vector<const void*> inputs;
  for (const std::vector<T>& values : ranks) inputs.push_back(values.data());
  const auto count = static_cast<std::int64_t>(ranks.front().size());
  std::vector<T> output(ranks.front().size());
  reduce({.dtype = dtype,
          .op = op,
          .inputs = inputs,
          .output = output.data(),
          .rows = 1,
          .row_elements = count,
          .row_stride = count});
  return output;
}

std::vector<float> bf16_reduced(ReduceOp op, const std::vector<std::vector<float>>& ranks) {
  std::vector<std::vector<std::uint16_t>> bits(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (const float value : ranks[i]) bits[i].push_back(to_bfloat16(value).bits);
  }
  std::vector<float> result;
  for (const std::uint16_t one : reduced(DType::kBF16, op, bits)) {
    result.push_back(to_float(BFloat16{one}));
  }
  return result;
}

}  // namespace

TEST_CASE("V-13 NaN of any rank wins max and min") {
  for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
    const auto result =
        reduced<float>(DType::kF32, op, {{kNaN, 1, 1, -3}, {1, kNaN, 2, -1}, {2, 2, kNaN, -2}});
    for (std::size_t i = 0; i < 3; ++i) CHECK(std::isnan(result[i]));
    CHECK(result[3] == (op == ReduceOp::kMax ? -1 : -3));
  }
}

TEST_CASE("V-13 bf16 is summed in f32 and rounded once") {
  CHECK(bf16_reduced(ReduceOp::kSum, {{256}, {1}, {1}}) == std::vector<float>{258});
  CHECK(bf16_reduced(ReduceOp::kSum, {{256}, {1}, {1}, {2}}) == std::vector<float>{260});
  CHECK(bf16_reduced(ReduceOp::kAvg, {{256}, {1}, {1}}) == std::vector<float>{86});
}

TEST_CASE("V-13 an average divides by all ranks, complex numbers too") {
  using C = std::complex<float>;
  CHECK(reduced<float>(DType::kF32, ReduceOp::kAvg, {{1, 0}, {2, 0}, {6, 3}}) ==
        std::vector<float>{3, 1});
  CHECK(reduced<C>(DType::kC64, ReduceOp::kAvg, {{C(1, 2)}, {C(3, -6)}}) ==
        std::vector<C>{C(2, -2)});
}

TEST_CASE("V-13 integers wrap, bools say any and all") {
  CHECK(reduced<std::int8_t>(DType::kI8, ReduceOp::kSum, {{100}, {100}}) ==
        std::vector<std::int8_t>{-56});
  CHECK(reduced<std::uint8_t>(DType::kU8, ReduceOp::kProduct, {{20}, {13}}) ==
        std::vector<std::uint8_t>{4});
  const std::vector<std::vector<std::uint8_t>> flags{{1, 1, 0}, {1, 0, 0}};
  CHECK(reduced(DType::kBool, ReduceOp::kSum, flags) == std::vector<std::uint8_t>{1, 1, 0});
  CHECK(reduced(DType::kBool, ReduceOp::kProduct, flags) == std::vector<std::uint8_t>{1, 0, 0});
  CHECK(reduced(DType::kBool, ReduceOp::kMin, flags) == std::vector<std::uint8_t>{1, 0, 0});
}

TEST_CASE("V-13 every rank counts once, however many there are") {
  for (std::int64_t ranks = 1; ranks <= 19; ++ranks) {
    std::vector<std::vector<std::int64_t>> values;
    for (std::int64_t rank = 0; rank < ranks; ++rank) values.push_back({std::int64_t{1} << rank});
    const std::int64_t all = (std::int64_t{1} << ranks) - 1;
    CHECK(reduced(DType::kI64, ReduceOp::kSum, values) == std::vector<std::int64_t>{all});
    CHECK(reduced(DType::kI64, ReduceOp::kBitOr, values) == std::vector<std::int64_t>{all});
  }
}

TEST_CASE("V-13 rows that lie apart, longer than a block") {
  constexpr std::int64_t kRows = 2, kElements = 1500, kStride = 1700;
  std::vector<float> a(kRows * kStride), b(a.size()), sum(kRows * kElements);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i);
    b[i] = 2;
  }
  const std::vector<const void*> inputs{a.data(), b.data()};
  reduce({.dtype = DType::kF32,
          .op = ReduceOp::kProduct,
          .inputs = inputs,
          .output = sum.data(),
          .rows = kRows,
          .row_elements = kElements,
          .row_stride = kStride});
  for (std::int64_t i = 0; i < kElements; ++i) {
    REQUIRE(sum[static_cast<std::size_t>(i)] == static_cast<float>(2 * i));
    REQUIRE(sum[static_cast<std::size_t>(kElements + i)] == static_cast<float>(2 * (kStride + i)));
  }
}
