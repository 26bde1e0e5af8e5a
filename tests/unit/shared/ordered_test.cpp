// Integers that represent floats: every bit pattern of narrow floats, and the special values of
// wide ones, compared as numbers.
#include "backends/shared/ordered.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace shardlab;
using namespace shardlab::backends;

namespace {

template <typename Float>
struct Form;  // carrier, dtype, and the number that a float is
template <>
struct Form<Float8E4M3> {
  using Integer = std::int8_t;
  static constexpr DType dtype = DType::kF8E4M3FN;
  static double number(Float8E4M3 x) { return to_float(x); }
};
template <>
struct Form<Half> {
  using Integer = std::int32_t;
  static constexpr DType dtype = DType::kF16;
  static double number(Half x) { return to_float(x); }
};
template <>
struct Form<BFloat16> {
  using Integer = std::int32_t;
  static constexpr DType dtype = DType::kBF16;
  static double number(BFloat16 x) { return to_float(x); }
};
template <>
struct Form<float> {
  using Integer = std::int32_t;
  static constexpr DType dtype = DType::kF32;
  static double number(float x) { return x; }
};
template <>
struct Form<double> {
  using Integer = std::int64_t;
  static constexpr DType dtype = DType::kF64;
  static double number(double x) { return x; }
};

template <typename Float>
std::vector<typename Form<Float>::Integer> integers_of(const std::vector<Float>& floats,
                                                       ReduceOp op) {
  std::vector<typename Form<Float>::Integer> integers(floats.size());
  order({Ordering::To::kIntegers, Form<Float>::dtype, op, floats.data(), integers.data(),
         static_cast<std::int64_t>(floats.size())});
  return integers;
}

// The number of values that do not come back unchanged, and of neighbours whose order differs from
// that of their integers.
template <typename Float>
std::pair<int, int> wrong_ones(const std::vector<Float>& floats, ReduceOp op) {
  const auto integers = integers_of(floats, op);
  std::vector<Float> back(floats.size());
  order({Ordering::To::kFloats, Form<Float>::dtype, op, integers.data(), back.data(),
         static_cast<std::int64_t>(floats.size())});
  int lost = 0, out_of_order = 0;
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const double x = Form<Float>::number(floats[i]), y = Form<Float>::number(back[i]);
    lost += std::isnan(x) ? !std::isnan(y) : x != y || std::signbit(x) != std::signbit(y);
    // Against one near and one far away.
    for (const std::size_t other : {i + 1, i + floats.size() / 2}) {
      const std::size_t j = other % floats.size();
      const double z = Form<Float>::number(floats[j]);
      const bool one_is_nan = std::isnan(x) || std::isnan(z);
      const bool wins =
          op == ReduceOp::kMax ? integers[i] > integers[j] : integers[i] < integers[j];
      if (one_is_nan) out_of_order += wins != (std::isnan(x) && !std::isnan(z));
      if (!one_is_nan && x != z) out_of_order += wins != (op == ReduceOp::kMax ? x > z : x < z);
    }
  }
  return {lost, out_of_order};
}

}  // namespace

TEST_CASE("K-14 integers stand for every narrow float in its order, and NaN wins") {
  std::vector<Float8E4M3> eight;
  std::vector<Half> half;
  std::vector<BFloat16> brain;
  for (int bits = 0; bits < 1 << 16; ++bits) {
    if (bits < 256) eight.push_back({static_cast<std::uint8_t>(bits)});
    half.push_back({static_cast<std::uint16_t>(bits)});
    brain.push_back({static_cast<std::uint16_t>(bits)});
  }
  for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
    CHECK(wrong_ones(eight, op) == std::pair(0, 0));
    CHECK(wrong_ones(half, op) == std::pair(0, 0));
    CHECK(wrong_ones(brain, op) == std::pair(0, 0));
  }
}

TEST_CASE("K-14 integers stand for wide floats of every magnitude") {
  std::vector<float> narrow;
  std::vector<double> wide;
  // Each exponent, both signs, ends and middle of its fraction: zeros, subnormals, infinities, NaN.
  for (const std::uint64_t sign : {0, 1}) {
    for (std::uint64_t exponent = 0; exponent < 2048; ++exponent) {
      for (const std::uint64_t part : {0, 1, 2, 3}) {
        const std::uint64_t in_f64 = part == 0 ? 0 : (std::uint64_t{1} << (13 * part + 12)) - 1;
        wide.push_back(std::bit_cast<double>(sign << 63 | exponent << 52 | in_f64));
        if (exponent >= 256) continue;
        const std::uint64_t in_f32 = part == 0 ? 0 : (std::uint64_t{1} << (7 * part + 2)) - 1;
        narrow.push_back(
            std::bit_cast<float>(static_cast<std::uint32_t>(sign << 31 | exponent << 23 | in_f32)));
      }
    }
  }
  for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
    CHECK(wrong_ones(narrow, op) == std::pair(0, 0));
    CHECK(wrong_ones(wide, op) == std::pair(0, 0));
  }
}
