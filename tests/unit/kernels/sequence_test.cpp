// arange, linspace, eye and triangles: whole, and as a piece that knows its place.
#include <doctest/doctest.h>

#include <limits>

#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

using Integers = std::vector<std::int64_t>;

Tensor piece_of(Kernels& kernels, KernelId kernel, const std::vector<LocalArg>& args,
                const Dims& shape, DType dtype, const LocalView& view) {
  const Tensor out = empty(kernels.device(), shape, dtype);
  kernels.run(kernel, args, std::vector<Tensor>{out}, &view);
  return out;
}

}  // namespace

TEST_CASE("arange with one, two and three numbers") {
  Kernels kernels;
  const auto integers = [&](const std::vector<LocalArg>& args, std::int64_t count) {
    return values_of<std::int64_t>(kernels.run(KernelId::kArange, args, Dims{count}, DType::kI64));
  };
  CHECK(integers({Scalar(3)}, 3) == Integers{0, 1, 2});
  CHECK(integers({Scalar(4), Scalar(7)}, 3) == Integers{4, 5, 6});
  CHECK(integers({Scalar(7), Scalar(0), Scalar(-3)}, 3) == Integers{7, 4, 1});
  CHECK(integers({Scalar(0)}, 0).empty());
}

TEST_CASE("arange of floats multiplies, so that errors do not add up") {
  Kernels kernels;
  const Tensor x = kernels.run(KernelId::kArange, {Scalar(0.0), Scalar(100.0), Scalar(0.1)},
                               Dims{1000}, DType::kF64);
  const auto values = values_of<double>(x);
  for (int i = 0; i < 1000; ++i) REQUIRE(values[std::size_t(i)] == 0.1 * i);
}

TEST_CASE("arange of integers keeps numbers that f64 cannot hold") {
  Kernels kernels;
  constexpr std::int64_t kLarge = (std::int64_t{1} << 53) + 1;
  const Tensor x =
      kernels.run(KernelId::kArange, {Scalar(kLarge), Scalar(kLarge + 2)}, Dims{2}, DType::kI64);
  CHECK(values_of<std::int64_t>(x) == Integers{kLarge, kLarge + 1});
}

TEST_CASE("a piece of arange holds its share: 7 over 3 ranks, two runs, and an empty piece") {
  Kernels kernels;
  const auto piece = [&](const std::vector<IndexRun>& runs) {
    LocalView view{{7}, {DimMap{}}};
    std::int64_t size = 0;
    for (const IndexRun& run : runs) {
      view.dims[0].runs.push_back(run);
      size += run.size;
    }
    return values_of<std::int64_t>(piece_of(kernels, KernelId::kArange, {Scalar(10), Scalar(17)},
                                            Dims{size}, DType::kI64, view));
  };
  CHECK(piece({{0, 3}}) == Integers{10, 11, 12});
  CHECK(piece({{6, 1}}) == Integers{16});
  CHECK(piece({{5, 2}, {1, 2}}) == Integers{15, 16, 11, 12});
  CHECK(piece({}).empty());
}

TEST_CASE("linspace reaches both ends exactly and is symmetric") {
  Kernels kernels;
  const auto run = [&](double start, double end, std::int64_t steps) {
    return values_of<double>(kernels.run(KernelId::kLinspace,
                                         {Scalar(start), Scalar(end), Scalar(steps)}, Dims{steps},
                                         DType::kF64));
  };
  CHECK(run(0, 1, 5) == std::vector<double>{0, 0.25, 0.5, 0.75, 1});
  CHECK(run(3, 3, 2) == std::vector<double>{3, 3});
  CHECK(run(2, 9, 1) == std::vector<double>{2});
  CHECK(run(2, 9, 0).empty());
  const auto tenths = run(-1, 1, 11);
  CHECK(tenths.back() == 1);
  for (std::size_t i = 0; i < 11; ++i) CHECK(tenths[i] == -tenths[10 - i]);
}

TEST_CASE("eye: ones where row and column agree, in squares, wide, tall and empty") {
  Kernels kernels;
  const auto eye = [&](std::int64_t rows, std::int64_t columns) {
    return values_of<float>(
        kernels.run(KernelId::kEye, {Scalar(rows), Scalar(columns)}, Dims{rows, columns}));
  };
  CHECK(eye(2, 2) == std::vector<float>{1, 0, 0, 1});
  CHECK(eye(2, 3) == std::vector<float>{1, 0, 0, 0, 1, 0});
  CHECK(eye(3, 1) == std::vector<float>{1, 0, 0});
  CHECK(eye(0, 3).empty());
}

TEST_CASE("a piece of eye sees the diagonal of the whole") {
  Kernels kernels;
  const LocalView rows{{5, 3}, {{{{2, 2}}}, {{{0, 3}}}}};
  CHECK(values_of<float>(piece_of(kernels, KernelId::kEye, {Scalar(5), Scalar(3)}, Dims{2, 3},
                                  DType::kF32, rows)) == std::vector<float>{0, 0, 1, 0, 0, 0});
  const LocalView columns{{3, 3}, {{{{0, 3}}}, {{{1, 2}}}}};
  CHECK(values_of<float>(piece_of(kernels, KernelId::kEye, {Scalar(3), Scalar(3)}, Dims{3, 2},
                                  DType::kF32, columns)) == std::vector<float>{0, 0, 1, 0, 0, 1});
}

TEST_CASE("triangles keep one side of a diagonal, also of many matrices") {
  Kernels kernels;
  std::vector<float> counting(18);
  for (std::size_t i = 0; i < 18; ++i) counting[i] = float(i + 1);
  const Tensor x = kernels.f32({2, 3, 3}, counting);
  for (const std::int64_t diagonal : {-3, -2, -1, 0, 1, 2, 3}) {
    CAPTURE(diagonal);
    const auto lower =
        values_of<float>(kernels.run(KernelId::kTril, {x, Scalar(diagonal)}, Dims{2, 3, 3}));
    const auto upper =
        values_of<float>(kernels.run(KernelId::kTriu, {x, Scalar(diagonal)}, Dims{2, 3, 3}));
    for (std::int64_t i = 0; i < 18; ++i) {
      const std::int64_t row = i / 3 % 3, column = i % 3;
      const float value = counting[std::size_t(i)];
      CHECK(lower[std::size_t(i)] == (column - row <= diagonal ? value : 0));
      CHECK(upper[std::size_t(i)] == (column - row >= diagonal ? value : 0));
    }
  }
}

TEST_CASE("triangles of wide, tall and empty matrices, and of bools") {
  Kernels kernels;
  const Tensor wide = kernels.f32({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(values_of<float>(kernels.run(KernelId::kTril, {wide, Scalar(1)}, Dims{2, 4})) ==
        std::vector<float>{1, 2, 0, 0, 5, 6, 7, 0});
  const Tensor tall = kernels.f32({3, 1}, {1, 2, 3});
  CHECK(values_of<float>(kernels.run(KernelId::kTriu, {tall, Scalar(0)}, Dims{3, 1})) ==
        std::vector<float>{1, 0, 0});
  const Tensor none = kernels.f32({0, 4}, {});
  CHECK(kernels.run(KernelId::kTril, {none, Scalar(0)}, Dims{0, 4}).numel() == 0);
  const Tensor truth = kernels.tensor<std::uint8_t>({2, 2}, DType::kBool, {1, 1, 1, 1});
  CHECK(values_of<bool>(kernels.run(KernelId::kTriu, {truth, Scalar(0)}, Dims{2, 2},
                                    DType::kBool)) == std::vector<bool>{true, true, false, true});
}
