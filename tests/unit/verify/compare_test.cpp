// The verdict on numbers: the error at which it begins to say "wrong".
#include "sim/verify/compare.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace shardlab;

namespace {

GlobalValue reals(Dims shape, std::vector<double> values, DType dtype = DType::kF32) {
  return {contiguous_meta(shape, dtype), std::move(values), {}};
}
GlobalValue integers(std::vector<std::int64_t> values) {
  const Dims shape{static_cast<std::int64_t>(values.size())};
  return {contiguous_meta(shape, DType::kI64), {}, std::move(values)};
}

/// Against a single-device run with the result `expected` in both dtypes.
Agreement judged(const GlobalValue& got, const GlobalValue& expected,
                 const Judgement& judgement = {}) {
  return compare(got, expected, expected, judgement).agreement;
}

const Judgement kExact{.exact = true, .relative_tolerance = {}};

}  // namespace

TEST_CASE("V-1 another shape of as many elements is wrong, and so is another dtype") {
  const std::vector<double> six{1, 2, 3, 4, 5, 6};
  for (const Judgement& judgement : {Judgement{}, kExact}) {
    CHECK(judged(reals({2, 3}, six), reals({2, 3}, six), judgement) != Agreement::kWrong);
    CHECK(judged(reals({2, 3}, six), reals({3, 2}, six), judgement) == Agreement::kWrong);
    CHECK(judged(reals({6}, six), reals({6, 1}, six), judgement) == Agreement::kWrong);
    CHECK(judged(reals({6}, six, DType::kF64), reals({6}, six), judgement) == Agreement::kWrong);
  }
}

TEST_CASE("V-2 a NaN or an infinity on one side only is wrong") {
  for (const double odd : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (const Judgement& judgement : {Judgement{}, kExact}) {
      CHECK(judged(reals({3}, {1, odd, 2}), reals({3}, {1, 5, 2}), judgement) == Agreement::kWrong);
      CHECK(judged(reals({3}, {1, 5, 2}), reals({3}, {1, odd, 2}), judgement) == Agreement::kWrong);
      CHECK(judged(reals({3}, {1, odd, 2}), reals({3}, {1, odd, 2}), judgement) !=
            Agreement::kWrong);
    }
  }
  CHECK(judged(reals({1}, {HUGE_VAL}), reals({1}, {-HUGE_VAL})) == Agreement::kWrong);
}

TEST_CASE("V-2 an overflow that one device has too is not wrong") {
  const GlobalValue single = reals({2}, {HUGE_VAL, 1}, DType::kF16);
  const GlobalValue reference = reals({2}, {70000, 1}, DType::kF64);
  CHECK(compare(single, single, reference, {}).agreement != Agreement::kWrong);
}

// One device is exact here: 16 roundings of 6e-8 are allowed for the largest element.
TEST_CASE("V-3 a float is wrong from a few roundings on") {
  const GlobalValue expected = reals({3}, {1, 0, -0.5});
  CHECK(judged(reals({3}, {1, 5e-7, -0.5}), expected) != Agreement::kWrong);
  CHECK(judged(reals({3}, {1, 2e-5, -0.5}), expected) == Agreement::kWrong);
  CHECK(judged(reals({3}, {1, 0, -0.50002}), expected) == Agreement::kWrong);
  const Judgement loose{.exact = false, .relative_tolerance = 1e-4};
  CHECK(judged(reals({3}, {1, 2e-5, -0.5}), expected, loose) == Agreement::kTolerance);
  CHECK(judged(reals({3}, {1, 2e-4, -0.5}), expected, loose) == Agreement::kWrong);
}

TEST_CASE("V-3 the error of one device itself counts four times") {
  const GlobalValue single = reals({2}, {1.001, 0}), reference = reals({2}, {1, 0});
  CHECK(compare(reals({2}, {0.997, 0}), single, reference, {}).agreement != Agreement::kWrong);
  CHECK(compare(reals({2}, {0.995, 0}), single, reference, {}).agreement == Agreement::kWrong);
}

TEST_CASE("V-4 an exact value agrees in every bit") {
  const double next = std::nextafter(1.0, 2.0);
  CHECK(judged(reals({2}, {1, 2}), reals({2}, {1, 2}), kExact) == Agreement::kBitwise);
  CHECK(judged(reals({2}, {1, next}), reals({2}, {1, 1}), kExact) == Agreement::kWrong);
  CHECK(judged(reals({1}, {-0.0}), reals({1}, {0.0}), kExact) == Agreement::kWrong);
  const GlobalValue a = reals({2}, {1, 2, 3, 4}, DType::kC64);
  CHECK(judged(reals({2}, {1, 2, 3, 5}, DType::kC64), a, kExact) == Agreement::kWrong);
}

TEST_CASE("V-4 bits that were read as another dtype agree in every one") {
  // An f32 holds two bf16; in f64 there is no cast, and half as many numbers.
  const GlobalValue single = reals({4}, {1, 2, 3, 4}, DType::kBF16);
  const GlobalValue wide = reals({2}, {1, 2}, DType::kF64);
  CHECK(compare(single, single, wide, {}).agreement == Agreement::kBitwise);
  const GlobalValue near = reals({4}, {1, 2, 3, 4.0078125}, DType::kBF16);
  CHECK(compare(near, single, wide, {}).agreement == Agreement::kWrong);
}

TEST_CASE("V-5 every element of an exact integer counts") {
  CHECK(judged(integers({1, 2, 3}), integers({1, 2, 3}), kExact) == Agreement::kBitwise);
  CHECK(judged(integers({1, 2, 4}), integers({1, 2, 3}), kExact) == Agreement::kWrong);
  CHECK(judged(integers({0, 2, 3}), integers({1, 2, 3}), kExact) == Agreement::kWrong);
}
