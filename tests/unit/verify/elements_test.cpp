// The verdict on the numbers of one value: each element by itself.
#include "sim/verify/compare.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace shardlab;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

GlobalValue floats(DType dtype, Dims shape, std::vector<double> numbers) {
  return {contiguous_meta(shape, dtype), std::move(numbers), {}};
}
GlobalValue f32(std::vector<double> numbers) {
  const auto size = static_cast<std::int64_t>(numbers.size());
  return floats(DType::kF32, {size}, std::move(numbers));
}
GlobalValue i64(std::vector<std::int64_t> numbers) {
  const auto size = static_cast<std::int64_t>(numbers.size());
  return {contiguous_meta(Dims{size}, DType::kI64), {}, std::move(numbers)};
}

}  // namespace

TEST_CASE("the envelope is 4 errors of one device plus 16 roundings, and not more") {
  const GlobalValue reference = f32({1, 2, 4}), single = f32({1 + 1e-5, 2, 4});
  const double allowed = 4 * 1e-5 + 16 * unit_roundoff(DType::kF32) * 4;
  const auto verdict = [&](double off) {
    return compare(f32({1, 2 + off, 4}), single, reference, {}).agreement;
  };
  CHECK(verdict(0.99 * allowed) == Agreement::kEnvelope);
  CHECK(verdict(1.01 * allowed) == Agreement::kWrong);
}

TEST_CASE("an overflow that one device has too hides nothing in the other elements") {
  const GlobalValue reference = f32({1, 5, 1e6}), single = f32({1, 5, kInf});
  CHECK(compare(f32({1, 5, kInf}), single, reference, {}).agreement == Agreement::kEnvelope);
  const Comparison wrong = compare(f32({1, 600, kInf}), single, reference, {});
  CHECK(wrong.agreement == Agreement::kWrong);
  CHECK(wrong.worst_index == 1);
  CHECK(wrong.differing == 1);
}

TEST_CASE("a NaN or an infinity that one device does not have is wrong") {
  const GlobalValue right = f32({1, 2});
  CHECK(compare(f32({1, kNan}), right, right, {}).agreement == Agreement::kWrong);
  CHECK(compare(f32({kInf, 2}), right, right, {}).agreement == Agreement::kWrong);
  const GlobalValue nan = f32({1, kNan});
  CHECK(compare(f32({1, 2}), nan, nan, {}).agreement == Agreement::kWrong);
  CHECK(compare(nan, nan, nan, {}).agreement == Agreement::kEnvelope);
}

TEST_CASE("shapes and dtypes are part of the value, also where the counts of elements agree") {
  const GlobalValue flat = floats(DType::kF32, {4}, {1, 2, 3, 4});
  const GlobalValue square = floats(DType::kF32, {2, 2}, {1, 2, 3, 4});
  const Comparison shapes = compare(flat, square, square, {});
  CHECK(shapes.agreement == Agreement::kWrong);
  CHECK(shapes.what == "is f32[4], the single-device run has f32[2, 2]");
  const GlobalValue half = floats(DType::kF16, {4}, {1, 2, 3, 4});
  CHECK(compare(half, flat, flat, {}).agreement == Agreement::kWrong);
}

TEST_CASE("integers that depend on no float are bitwise; others are undecided, and counted") {
  const GlobalValue right = i64({3, 1, 2});
  const Comparison exact = compare(i64({3, 1, 7}), right, right, {.exact = true});
  CHECK(exact.agreement == Agreement::kWrong);
  CHECK(exact.what == "element 2 is 7, the single-device run has 2");
  const Comparison open = compare(i64({3, 0, 7}), right, right, {});
  CHECK(open.agreement == Agreement::kUndecided);
  CHECK(open.differing == 2);
}

TEST_CASE("in f64 a row is judged by its own largest element") {
  const GlobalValue reference = floats(DType::kF64, {2, 2}, {1, 1, 1000, 1000});
  const auto verdict = [&](double small, double large, double noise) {
    const GlobalValue got = floats(DType::kF64, {2, 2}, {1, 1 + small, 1000, 1000 + large});
    return compare_in_f64(got, reference, {.any = noise}).agreement;
  };
  CHECK(verdict(0.5e-9, 0.5e-6, 0) == Agreement::kEnvelope);
  CHECK(verdict(2e-9, 0, 0) == Agreement::kWrong);
  CHECK(verdict(2e-9, 0, 2e-9) == Agreement::kEnvelope);
  CHECK(verdict(0, 2e-6, 0) == Agreement::kWrong);
  const GlobalValue none = floats(DType::kF64, {2, 0}, {});
  CHECK(compare_in_f64(none, none, {}).agreement == Agreement::kEnvelope);
}

TEST_CASE("in f64 a row of a program in f64 that is 0 has the noise of the numbers around") {
  const GlobalValue zeros = floats(DType::kF64, {2, 1}, {0, 1});
  const double u = 0x1p-53;
  const F64Noise noise = f64_noise(zeros, zeros, 0, 64);
  CHECK(noise.of_zero == 1000 * u * 64);
  const auto verdict = [&](double first, double second) {
    return compare_in_f64(floats(DType::kF64, {2, 1}, {first, 1 + second}), zeros, noise).agreement;
  };
  CHECK(verdict(1000 * u * 60, 0) == Agreement::kEnvelope);
  CHECK(verdict(1000 * u * 70, 0) == Agreement::kWrong);
  CHECK(verdict(0, 2e-9) == Agreement::kWrong);  // a row of another size has its own
}

TEST_CASE("in f64 small numbers have the roundings of the large ones that cancelled in them") {
  const double u = 0x1p-53, tiny = 1e-10;  // a gradient behind two norms
  const GlobalValue truth = floats(DType::kF64, {2, 1}, {tiny, 2 * tiny});
  const F64Noise noise = f64_noise(truth, truth, 0, 4);
  CHECK(noise.any == 16 * u * 4);
  const auto verdict = [&](double off) {
    return compare_in_f64(floats(DType::kF64, {2, 1}, {tiny + off, 2 * tiny}), truth, noise)
        .agreement;
  };
  CHECK(verdict(4 * u) == Agreement::kEnvelope);
  CHECK(verdict(80 * u) == Agreement::kWrong);
  CHECK(verdict(tiny) == Agreement::kWrong);  // twice as large
  // Numbers of one size have their own scale.
  CHECK(f64_noise(floats(DType::kF64, {1}, {4}), floats(DType::kF64, {1}, {4}), 0, 4).any ==
        1000 * u * 4);
}

TEST_CASE("integers and bools of two runs in f64 are equal or wrong") {
  CHECK(compare_in_f64(i64({1, 2}), i64({1, 2}), {}).agreement == Agreement::kBitwise);
  CHECK(compare_in_f64(i64({1, 2}), i64({1, 3}), {}).agreement == Agreement::kWrong);
}

TEST_CASE("the noise of f64 follows from how far the program's dtype goes astray") {
  const double finer = 1 / 536870912.0;  // 2^29 roundings
  CHECK(f64_noise(f32({1, 2.5}), f32({1, 2}), 0, 0).any == doctest::Approx(1000 * 0.5 * finer));
  // One device is right by luck; the sharded run is not.
  CHECK(f64_noise(f32({1, 0}), f32({1, 0}), 2, 0).any == doctest::Approx(1000 * 2 * finer));
  CHECK(f64_noise(i64({1}), i64({2}), 0, 0).any == 0);
}
