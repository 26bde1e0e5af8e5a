// gather, scatter and the gradient of a lookup against loops over the definition.
#include <doctest/doctest.h>

#include <limits>

#include "base/error.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

using Floats = std::vector<float>;

}  // namespace

TEST_CASE("gather reads self[index[i][j]][j] along dim 0 and self[i][index[i][j]] along dim 1") {
  Kernels kernels;
  const Tensor x = kernels.f32({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor index = kernels.i64({2, 2}, {2, 0, 1, 1});
  CHECK(values_of<float>(kernels.run(KernelId::kGather, {x, Scalar(0), index, Scalar(false)},
                                     Dims{2, 2})) == Floats{5, 2, 3, 4});
  const Tensor along = kernels.i64({3, 1}, {1, 0, 1});
  CHECK(values_of<float>(kernels.run(KernelId::kGather, {x, Scalar(-1), along, Scalar(false)},
                                     Dims{3, 1})) == Floats{2, 3, 6});
}

TEST_CASE("gather from strided memory, by indices of 32 bits, from fewer rows than there are") {
  Kernels kernels;
  const Tensor x = turned(kernels.f32({2, 3}, {1, 2, 3, 4, 5, 6}));  // 1 4 / 2 5 / 3 6
  const Tensor index = kernels.tensor<std::int32_t>({1, 2}, DType::kI32, {2, 1});
  CHECK(values_of<float>(kernels.run(KernelId::kGather, {x, Scalar(0), index, Scalar(false)},
                                     Dims{1, 2})) == Floats{3, 5});
  const Tensor strided = turned(kernels.i64({2, 1}, {0, 2}));  // the index is a transposed view
  CHECK(values_of<float>(kernels.run(KernelId::kGather, {x, Scalar(0), strided, Scalar(false)},
                                     Dims{1, 2})) == Floats{1, 6});
}

TEST_CASE("gather without dims and without indices") {
  Kernels kernels;
  const Tensor scalar = kernels.f32({}, {7});
  CHECK(values_of<float>(kernels.run(
            KernelId::kGather, {scalar, Scalar(0), kernels.i64({}, {0}), Scalar(false)}, Dims{})) ==
        Floats{7});
  const Tensor none = kernels.i64({0, 2}, {});
  const Tensor x = kernels.f32({3, 2}, {1, 2, 3, 4, 5, 6});
  CHECK(kernels.run(KernelId::kGather, {x, Scalar(0), none, Scalar(false)}, Dims{0, 2}).numel() ==
        0);
}

TEST_CASE("gather moves bits: NaN keeps its payload, and dtypes have to agree") {
  Kernels kernels;
  const std::vector<std::uint16_t> bits = {0x7FC1, 0x8000};  // a NaN and -0 of bf16
  const Tensor x = kernels.tensor({2}, DType::kBF16, bits);
  const Tensor index = kernels.i64({2}, {1, 0});
  const Tensor got =
      kernels.run(KernelId::kGather, {x, Scalar(0), index, Scalar(false)}, Dims{2}, DType::kBF16);
  CHECK(values_of<std::uint16_t>(got) == std::vector<std::uint16_t>{0x8000, 0x7FC1});
  CHECK_THROWS_AS(
      kernels.run(KernelId::kGather, {x, Scalar(0), index, Scalar(false)}, Dims{2}, DType::kF16),
      Error);
}

TEST_CASE("scatter writes where the index says, the last one wins, the rest stays") {
  Kernels kernels;
  const Tensor self = kernels.f32({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor index = kernels.i64({3, 1}, {2, 2, 0});
  const Tensor source = kernels.f32({3, 2}, {10, 11, 20, 21, 30, 31});
  CHECK(values_of<float>(kernels.run(KernelId::kScatter, {self, Scalar(0), index, source},
                                     Dims{3, 2})) == Floats{30, 2, 3, 4, 20, 6});
  CHECK(values_of<float>(kernels.run(KernelId::kScatter, {self, Scalar(0), index, Scalar(9)},
                                     Dims{3, 2})) == Floats{9, 2, 3, 4, 9, 6});
}

TEST_CASE("scatter_add sums what meets; the source may be longer than the index") {
  Kernels kernels;
  const Tensor self = kernels.f32({2, 3}, {1, 1, 1, 1, 1, 1});
  const Tensor index = kernels.i64({2, 2}, {0, 0, 2, 1});
  const Tensor source = kernels.f32({2, 3}, {10, 20, 99, 30, 40, 99});
  CHECK(values_of<float>(kernels.run(KernelId::kScatterAdd, {self, Scalar(1), index, source},
                                     Dims{2, 3})) == Floats{31, 1, 1, 1, 41, 31});
}

TEST_CASE("scatter_add of integers wraps, of bf16 rounds once") {
  Kernels kernels;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Tensor index = kernels.i64({1}, {0});
  const Tensor sum = kernels.run(
      KernelId::kScatterAdd, {kernels.i64({1}, {kMost}), Scalar(0), index, kernels.i64({1}, {1})},
      Dims{1}, DType::kI64);
  CHECK(values_of<std::int64_t>(sum)[0] == std::numeric_limits<std::int64_t>::min());
  // 256 + 1 + 1: bf16 has no 257, so rounding after each addition would stay at 256.
  const auto bits = [](float value) { return to_bfloat16(value).bits; };
  const Tensor many = kernels.tensor<std::uint16_t>({2}, DType::kBF16, {bits(1), bits(1)});
  const Tensor start = kernels.tensor<std::uint16_t>({1}, DType::kBF16, {bits(256)});
  const Tensor rounded =
      kernels.run(KernelId::kScatterAdd, {start, Scalar(0), kernels.i64({2}, {0, 0}), many},
                  Dims{1}, DType::kBF16);
  CHECK(values_of<std::uint16_t>(rounded)[0] == bits(258));
}

TEST_CASE("scatter refuses an index outside, before and behind") {
  Kernels kernels;
  const Tensor self = kernels.f32({2}, {1, 2});
  for (const std::int64_t outside : {-1, 2}) {
    CAPTURE(outside);
    const Tensor index = kernels.i64({1}, {outside});
    CHECK_THROWS_AS(kernels.run(KernelId::kScatter, {self, Scalar(0), index, Scalar(0)}, Dims{2}),
                    Error);
  }
}

TEST_CASE("the gradient of a lookup sums the rows of equal indices, but none of the padding") {
  Kernels kernels;
  const Tensor grad = kernels.f32({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor indices = kernels.i64({2, 2}, {1, 0, 1, 3});
  const auto gradient = [&](std::int64_t padding, bool by_frequency) {
    return values_of<float>(
        kernels.run(KernelId::kEmbeddingDenseBackward,
                    {grad, indices, Scalar(4), Scalar(padding), Scalar(by_frequency)}, Dims{4, 2}));
  };
  CHECK(gradient(-1, false) == Floats{3, 4, 6, 8, 0, 0, 7, 8});
  CHECK(gradient(3, false) == Floats{3, 4, 6, 8, 0, 0, 0, 0});
  CHECK(gradient(-1, true) == Floats{3, 4, 3, 4, 0, 0, 7, 8});
}

TEST_CASE("the gradient of a lookup without indices is zero, an index outside is refused") {
  Kernels kernels;
  const Tensor none = kernels.f32({0, 2}, {});
  CHECK(values_of<float>(kernels.run(
            KernelId::kEmbeddingDenseBackward,
            {none, kernels.i64({0}, {}), Scalar(2), Scalar(-1), Scalar(false)}, Dims{2, 2})) ==
        Floats{0, 0, 0, 0});
  const Tensor grad = kernels.f32({1, 2}, {1, 2});
  CHECK_THROWS_AS(
      kernels.run(KernelId::kEmbeddingDenseBackward,
                  {grad, kernels.i64({1}, {2}), Scalar(2), Scalar(-1), Scalar(false)}, Dims{2, 2}),
      Error);
}

TEST_CASE("a lookup takes whole rows from a table of any strides") {
  Kernels kernels;
  const Tensor table = turned(kernels.f32({2, 3}, {1, 2, 3, 4, 5, 6}));  // 1 4 / 2 5 / 3 6
  const Tensor indices = kernels.i64({2, 2}, {2, 2, 0, 1});
  CHECK(values_of<float>(kernels.run(KernelId::kEmbedding,
                                     {table, indices, Scalar(-1), Scalar(false), Scalar(false)},
                                     Dims{2, 2, 2})) == Floats{3, 6, 3, 6, 1, 4, 2, 5});
}
