#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

std::vector<LocalArg> embedding_args(const Tensor& weight, const Tensor& indices) {
  return {weight, indices, Scalar(-1), Scalar(false), Scalar(false)};
}

}  // namespace

TEST_CASE("a lookup in a row shard gives zeros and a mask for rows of other ranks") {
  Kernels kernels;
  const Tensor weight = kernels.f32({2, 2}, {30, 31, 40, 41});  // rows 3 and 4 of 7
  const LocalView view{{7, 2}, {{{{3, 2}}}, {{{0, 2}}}}};
  const Tensor indices = kernels.i64({2, 2}, {4, 0, 6, 3});
  const Tensor values = empty(kernels.device(), Dims{2, 2, 2}, DType::kF32);
  const Tensor mask = empty(kernels.device(), Dims{2, 2}, DType::kBool);
  kernels.run(KernelId::kEmbeddingMasked, embedding_args(weight, indices),
              std::vector<Tensor>{values, mask}, &view);
  CHECK(values_of<float>(values) == std::vector<float>{40, 41, 0, 0, 0, 0, 30, 31});
  CHECK(values_of<bool>(mask) == std::vector<bool>{false, true, true, false});
}

TEST_CASE("a rank without rows masks everything") {
  Kernels kernels;
  const Tensor weight = kernels.f32({0, 2}, {});
  const LocalView view{{7, 2}, {{}, {{{0, 2}}}}};
  const Tensor values = empty(kernels.device(), Dims{1, 2}, DType::kF32);
  const Tensor mask = empty(kernels.device(), Dims{1}, DType::kBool);
  kernels.run(KernelId::kEmbeddingMasked, embedding_args(weight, kernels.i64({1}, {5})),
              std::vector<Tensor>{values, mask}, &view);
  CHECK(values_of<float>(values) == std::vector<float>{0, 0});
  CHECK(values_of<bool>(mask) == std::vector<bool>{true});
}

TEST_CASE("a masked gather finds elements in several runs") {
  Kernels kernels;
  const Tensor self = kernels.f32({3}, {50, 60, 10});  // elements 5, 6 and 1 of 8
  const LocalView view{{8}, {{{{5, 2}, {1, 1}}}}};
  const Tensor values = empty(kernels.device(), Dims{4}, DType::kF32);
  const Tensor mask = empty(kernels.device(), Dims{4}, DType::kBool);
  kernels.run(KernelId::kGatherMasked,
              {self, Scalar(0), kernels.i64({4}, {1, 5, 0, 6}), Scalar(false)},
              std::vector<Tensor>{values, mask}, &view);
  CHECK(values_of<float>(values) == std::vector<float>{10, 50, 0, 60});
  CHECK(values_of<bool>(mask) == std::vector<bool>{false, false, true, false});
}

TEST_CASE("an index outside of the table is a Value error with index and range") {
  Kernels kernels;
  const Tensor weight = kernels.f32({3, 1}, {1, 2, 3});
  const LocalView view{{3, 1}, {{{{0, 3}}}, {{{0, 1}}}}};
  for (const std::int64_t index : {-1, 3}) {
    const Tensor indices = kernels.i64({1}, {index});
    const Tensor values = empty(kernels.device(), Dims{1, 1}, DType::kF32);
    const Tensor mask = empty(kernels.device(), Dims{1}, DType::kBool);
    const std::string text = fmt::format(
        "index {} is out of range; it must be in [0, 3)\n"
        "  fix         give a larger tensor, or other indices",
        index);
    CHECK_THROWS_WITH(kernels.run(KernelId::kEmbedding, embedding_args(weight, indices),
                                  std::vector<Tensor>{values}),
                      text.c_str());
    CHECK_THROWS_WITH(kernels.run(KernelId::kEmbeddingMasked, embedding_args(weight, indices),
                                  std::vector<Tensor>{values, mask}, &view),
                      text.c_str());
    CHECK_THROWS_WITH(kernels.run(KernelId::kGather,
                                  {weight, Scalar(0), kernels.i64({1, 1}, {index})}, Dims{1, 1}),
                      text.c_str());
  }
}

TEST_CASE("a class outside of the scores is a Value error, an ignored one is not") {
  Kernels kernels;
  const Tensor scores = kernels.f32({1, 2}, {-1, -2});
  const auto loss = [&](std::int64_t target) {
    const Tensor value = empty(kernels.device(), Dims{}, DType::kF32);
    const Tensor weight = empty(kernels.device(), Dims{}, DType::kF32);
    kernels.run(KernelId::kNllLossForward,
                {scores, kernels.i64({1}, {target}), std::monostate{}, Scalar(2), Scalar(-100)},
                std::vector<Tensor>{value, weight});
    return values_of<float>(value)[0];
  };
  CHECK(loss(1) == 2.0f);
  CHECK(loss(-100) == 0.0f);
  CHECK_THROWS_WITH(loss(2),
                    "target 2 is out of range; it must be in [0, 2)\n"
                    "  fix         give logits of more classes, or -100 (ignore_index) where there "
                    "is none");
}
