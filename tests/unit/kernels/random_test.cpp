#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

constexpr RandomState kState{1234, 56};

Tensor draw(Kernels& kernels, KernelId kernel, const std::vector<LocalArg>& args, const Dims& shape,
            DType dtype, const LocalView* view = nullptr) {
  Tensor out = empty(kernels.device(), shape, dtype);
  kernels.run(kernel, args, std::vector<Tensor>{out}, view, kState);
  return out;
}

struct Draw {
  KernelId kernel;
  std::vector<LocalArg> args;
};

std::vector<Draw> draws() {
  return {{KernelId::kRand, {Dims{}}},
          {KernelId::kRandn, {Dims{}}},
          {KernelId::kRandint, {Scalar(100), Dims{}}},
          {KernelId::kUniform, {Dims{}, Scalar(-2.0), Scalar(3.0)}},
          {KernelId::kNormal, {Dims{}, Scalar(1.0), Scalar(0.5)}},
          {KernelId::kBernoulliP, {Dims{}, Scalar(0.25)}}};
}

struct Moments {
  double mean, deviation;
};

Moments moments_of(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / static_cast<double>(values.size()))};
}

}  // namespace

TEST_CASE("X-40 a shard draws the numbers of its global elements, bit for bit") {
  Kernels kernels;
  // Rows 3 to 6 of 7, columns in two runs: 4 and 5, then 0.
  const LocalView view{{7, 6}, {{{{3, 4}}}, {{{4, 2}, {0, 1}}}}};
  const std::int64_t columns[] = {4, 5, 0};
  for (const Draw& each : draws()) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      const auto whole =
          values_of<std::uint64_t>(draw(kernels, each.kernel, each.args, {7, 6}, DType::kF64));
      const auto whole32 =
          values_of<std::uint32_t>(draw(kernels, each.kernel, each.args, {7, 6}, DType::kF32));
      const Tensor local = draw(kernels, each.kernel, each.args, {4, 3}, dtype, &view);
      for (std::size_t i = 0; i < 12; ++i) {
        const auto global =
            static_cast<std::size_t>((3 + std::int64_t(i) / 3) * 6 + columns[i % 3]);
        CAPTURE(static_cast<int>(each.kernel));
        CAPTURE(i);
        if (dtype == DType::kF64) {
          CHECK(values_of<std::uint64_t>(local)[i] == whole[global]);
        } else {
          CHECK(values_of<std::uint32_t>(local)[i] == whole32[global]);
        }
      }
    }
  }
}

TEST_CASE("X-40 an empty shard draws nothing") {
  Kernels kernels;
  const LocalView view{{7, 6}, {{}, {{{0, 6}}}}};
  CHECK(draw(kernels, KernelId::kRandn, {Dims{}}, {0, 6}, DType::kF32, &view).numel() == 0);
}

TEST_CASE("X-40 a draw that starts later continues the same stream") {
  Kernels kernels;
  const auto first = values_of<float>(draw(kernels, KernelId::kRand, {Dims{}}, {10}, DType::kF32));
  Tensor later = empty(kernels.device(), Dims{7}, DType::kF32);
  kernels.run(KernelId::kRand, {Dims{}}, std::vector<Tensor>{later}, nullptr, {1234, 59});
  CHECK(values_of<float>(later) == std::vector<float>(first.begin() + 3, first.end()));
}

TEST_CASE("distributions have their moments, within five standard errors of 200000 draws") {
  Kernels kernels;
  struct Row {
    KernelId kernel;
    std::vector<LocalArg> args;
    double mean, deviation, deviation_error;
  };
  const double uniform = std::sqrt(1.0 / 12);
  const Row rows[] = {
      {KernelId::kRand, {Dims{}}, 0.5, uniform, 0.0007},
      {KernelId::kRandn, {Dims{}}, 0, 1, 0.0079},
      {KernelId::kUniform, {Dims{}, Scalar(-2.0), Scalar(4.0)}, 1, 6 * uniform, 0.0042},
      {KernelId::kNormal, {Dims{}, Scalar(3.0), Scalar(2.0)}, 3, 2, 0.0158},
      {KernelId::kRandint, {Scalar(10), Dims{}}, 4.5, std::sqrt(99.0 / 12), 0.012},
      {KernelId::kBernoulliP, {Dims{}, Scalar(0.3)}, 0.3, std::sqrt(0.21), 0.0023},
  };
  for (const Row& row : rows) {
    const Tensor drawn = draw(kernels, row.kernel, row.args, {200000}, DType::kF64);
    const Moments got = moments_of(values_of<double>(drawn));
    CAPTURE(static_cast<int>(row.kernel));
    CHECK(std::fabs(got.mean - row.mean) < 5 * row.deviation / std::sqrt(200000.0));
    CHECK(std::fabs(got.deviation - row.deviation) < row.deviation_error);
  }
}

TEST_CASE("rand stays below 1 in every float dtype") {
  Kernels kernels;
  const Tensor drawn = draw(kernels, KernelId::kRand, {Dims{}}, {100000}, DType::kBF16);
  for (const std::uint16_t bits : values_of<std::uint16_t>(drawn)) {
    REQUIRE(to_float(BFloat16{bits}) < 1.0f);
  }
}

TEST_CASE("dropout scales what it keeps and tells it in the mask") {
  Kernels kernels;
  const Tensor ones = kernels.run(KernelId::kOnes, {Dims{}}, Dims{1000});
  const Tensor values = empty(kernels.device(), Dims{1000}, DType::kF32);
  const Tensor mask = empty(kernels.device(), Dims{1000}, DType::kBool);
  kernels.run(KernelId::kNativeDropout, {ones, Scalar(0.75), Scalar(true)},
              std::vector<Tensor>{values, mask}, nullptr, kState);
  const auto kept = values_of<bool>(mask);
  const auto results = values_of<float>(values);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    CHECK(results[i] == (kept[i] ? 4.0f : 0.0f));
    count += kept[i];
  }
  CHECK(count > 180);
  CHECK(count < 320);
}
