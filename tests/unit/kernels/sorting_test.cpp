// Sorting and ops made of it, on rows of every length at which the algorithm changes, against a
// stable sort of the standard library that compares the numbers themselves.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

// Numbers with many equal ones among them, the ends of their type, both zeros and NaN.
template <typename T>
std::vector<T> mixed_numbers(std::size_t count) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> ends = {0, 1, Limits::max(), Limits::lowest(), static_cast<T>(-1)};
  if constexpr (Limits::has_infinity) {
    ends.insert(ends.end(), {T(-0.0), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                             -Limits::quiet_NaN(), Limits::denorm_min(), -Limits::denorm_min()});
  }
  std::vector<T> numbers;
  std::uint32_t state = 7;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const std::uint32_t drawn = state >> 16;
    const auto whole = static_cast<T>(static_cast<int>(drawn % 100) - 50);
    // Numbers that differ in the last digits of a key, too.
    const T fine = static_cast<T>(whole * 1000003 + static_cast<T>(state >> 3) / 7);
    numbers.push_back(drawn % 3 == 0   ? ends[drawn / 3 % ends.size()]
                      : drawn % 3 == 1 ? whole
                                       : fine);
  }
  return numbers;
}

template <typename T>
bool stands_before(bool descending, T a, T b) {
  const bool a_nan = a != a, b_nan = b != b;
  if (a_nan || b_nan) return a_nan != b_nan && (descending ? a_nan : b_nan);
  return descending ? a > b : a < b;
}

template <typename T>
std::vector<std::int64_t> sorted_places(const std::vector<T>& row, bool descending) {
  std::vector<std::int64_t> places(row.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, [&](std::int64_t a, std::int64_t b) {
    return stands_before(descending, row[std::size_t(a)], row[std::size_t(b)]);
  });
  return places;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// One row, and the first `wanted` of it: values with their own bits, and places.
template <typename T>
void check_sorted(Kernels& kernels, DType dtype, std::size_t size, bool descending) {
  CAPTURE(to_string(dtype));
  CAPTURE(size);
  CAPTURE(descending);
  const std::vector<T> row = mixed_numbers<T>(size);
  const std::vector<std::int64_t> places = sorted_places(row, descending);
  const auto count = static_cast<std::int64_t>(size);
  const Tensor x = kernels.tensor<T>({count}, dtype, row);
  for (const std::size_t wanted : {std::size_t(0), size / 64, size / 3, size}) {
    CAPTURE(wanted);
    const auto kept = static_cast<std::int64_t>(wanted);
    const std::vector<Tensor> outputs{empty(kernels.device(), Dims{kept}, dtype),
                                      empty(kernels.device(), Dims{kept}, DType::kI64)};
    kernels.run(KernelId::kTopk, {x, Scalar(kept), Scalar(0), Scalar(descending), Scalar(true)},
                outputs);
    const std::vector<std::int64_t> first(places.begin(), places.begin() + kept);
    CHECK(values_of<std::int64_t>(outputs[1]) == first);
    std::vector<T> values;
    for (const std::int64_t place : first) values.push_back(row[std::size_t(place)]);
    CHECK(same_bits(values_of<T>(outputs[0]), values));
    if (wanted != size) continue;
    kernels.run(KernelId::kSortStable, {x, Scalar(true), Scalar(0), Scalar(descending)}, outputs);
    CHECK(values_of<std::int64_t>(outputs[1]) == first);
    CHECK(same_bits(values_of<T>(outputs[0]), values));
  }
}

}  // namespace

TEST_CASE(
    "V-24 rows of every length are sorted as the standard library sorts them, ends included") {
  Kernels kernels;
  for (const std::size_t size : {0, 1, 2, 31, 255, 256, 257, 3000}) {
    for (const bool descending : {false, true}) {
      check_sorted<float>(kernels, DType::kF32, size, descending);
      check_sorted<double>(kernels, DType::kF64, size, descending);
      check_sorted<std::int64_t>(kernels, DType::kI64, size, descending);
      check_sorted<std::uint8_t>(kernels, DType::kU8, size, descending);
    }
  }
}

TEST_CASE("V-24 sorting in place gives what sorting elsewhere gives") {
  Kernels kernels;
  const std::vector<float> row = mixed_numbers<float>(300);
  const Tensor x = kernels.f32({300}, row);
  const Tensor places = empty(kernels.device(), Dims{300}, DType::kI64);
  kernels.run(KernelId::kSort, {x, Scalar(0), Scalar(false)}, std::vector<Tensor>{x, places});
  std::vector<float> values;
  for (const std::int64_t place : sorted_places(row, false)) {
    values.push_back(row[std::size_t(place)]);
  }
  CHECK(same_bits(values_of<float>(x), values));
}

TEST_CASE("V-24 the k-th value is that of the sorted row, at the first of equal places") {
  Kernels kernels;
  const std::vector<double> row = mixed_numbers<double>(301);
  const Tensor x = kernels.tensor<double>({301}, DType::kF64, row);
  const std::vector<std::int64_t> places = sorted_places(row, false);
  for (const std::int64_t k : {1, 2, 77, 150, 300, 301}) {
    CAPTURE(k);
    const std::vector<Tensor> outputs{empty(kernels.device(), Dims{}, DType::kF64),
                                      empty(kernels.device(), Dims{}, DType::kI64)};
    kernels.run(KernelId::kKthvalue, {x, Scalar(k), Scalar(0), Scalar(false)}, outputs);
    CHECK(values_of<std::int64_t>(outputs[1])[0] == places[std::size_t(k - 1)]);
  }
}

TEST_CASE("V-24 the mode is the least of the most frequent numbers, at its last place") {
  Kernels kernels;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = kernels.f32({9}, {nan, 3, -1, 3, 0, -1, nan, -0.0f, nan});
  const std::vector<Tensor> outputs{empty(kernels.device(), Dims{}, DType::kF32),
                                    empty(kernels.device(), Dims{}, DType::kI64)};
  kernels.run(KernelId::kMode, {x, Scalar(0), Scalar(false)}, outputs);
  // NaN equals nothing; -1, 0 and 3 are there twice each.
  CHECK(values_of<float>(outputs[0])[0] == -1);
  CHECK(values_of<std::int64_t>(outputs[1])[0] == 5);
}

TEST_CASE("V-24 among numbers that are there once NaN is the mode where the row begins with it") {
  Kernels kernels;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = kernels.f32({4, 3}, {2, nan, 1, nan, 2, 1, nan, 1, 1, nan, nan, nan});
  const std::vector<Tensor> outputs{empty(kernels.device(), Dims{4}, DType::kF32),
                                    empty(kernels.device(), Dims{4}, DType::kI64)};
  kernels.run(KernelId::kMode, {x, Scalar(1), Scalar(false)}, outputs);
  CHECK(values_of<std::int64_t>(outputs[1]) == std::vector<std::int64_t>{2, 0, 2, 0});
  CHECK(values_of<float>(outputs[0])[0] == 1);
}
