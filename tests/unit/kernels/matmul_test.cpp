#include "kernels/matmul.h"

#include <doctest/doctest.h>
#include <pthread.h>

#include <cmath>

#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

TEST_CASE("no inner elements: zeros, or beta times self") {
  Kernels kernels;
  const Tensor a = kernels.f32({2, 0}, {}), b = kernels.f32({0, 2}, {});
  CHECK(values_of<float>(kernels.run(KernelId::kMm, {a, b}, Dims{2, 2})) ==
        std::vector<float>{0, 0, 0, 0});
  const Tensor bias = kernels.f32({2}, {1, 2});
  const Tensor sum = kernels.run(KernelId::kAddmm, {bias, a, b, Scalar(3), Scalar(1)}, Dims{2, 2});
  CHECK(values_of<float>(sum) == std::vector<float>{3, 6, 3, 6});
}

TEST_CASE("transposed operands and outputs are read and written in place") {
  Kernels kernels;
  const Tensor a = kernels.f32({3, 2}, {1, 4, 2, 5, 3, 6});  // of [[1, 2, 3], [4, 5, 6]]
  const Tensor left = a.as_view({{2, 3}, {1, 2}, DType::kF32}, 0);
  const Tensor right = kernels.f32({3, 1}, {1, 10, 100});
  CHECK(values_of<float>(kernels.run(KernelId::kMm, {left, right}, Dims{2, 1})) ==
        std::vector<float>{321, 654});
  const Tensor out = empty(kernels.device(), TensorMeta{{2, 2}, {1, 2}, DType::kF32});
  kernels.run(KernelId::kMm, {left, a}, std::vector<Tensor>{out});
  CHECK(values_of<float>(out) == std::vector<float>{14, 32, 32, 77});
}

TEST_CASE("products of every small size, also of turned operands, are the sums of their terms") {
  Kernels kernels;
  const auto term = [](std::int64_t i) { return static_cast<float>(i * 7 % 11 - 5); };
  for (const std::int64_t rows : {1, 3, 4, 8, 9}) {
    for (const std::int64_t inner : {1, 5, 33, 40}) {
      for (const std::int64_t columns : {1, 7, 8, 9, 15, 16, 17, 25, 33, 40}) {
        std::vector<float> left, right, expected;
        for (std::int64_t i = 0; i < rows * inner; ++i) left.push_back(term(i));
        for (std::int64_t i = 0; i < inner * columns; ++i) right.push_back(term(i + 3));
        for (std::int64_t i = 0; i < rows * columns; ++i) {
          float sum = 0;
          for (std::int64_t k = 0; k < inner; ++k) {
            sum += term(i / columns * inner + k) * term(k * columns + i % columns + 3);
          }
          expected.push_back(sum);
        }
        CAPTURE(rows);
        CAPTURE(inner);
        CAPTURE(columns);
        const Tensor a = kernels.f32({rows, inner}, left);
        const Tensor b = kernels.f32({inner, columns}, right);
        CHECK(values_of<float>(kernels.run(KernelId::kMm, {a, b}, Dims{rows, columns})) ==
              expected);
        const Tensor turned =
            clone_contiguous(a.as_view({{inner, rows}, {1, inner}, DType::kF32}, 0))
                .as_view({{rows, inner}, {1, rows}, DType::kF32}, 0);
        CHECK(values_of<float>(kernels.run(KernelId::kMm, {turned, b}, Dims{rows, columns})) ==
              expected);
      }
    }
  }
}

TEST_CASE("addmm may write over self, and beta 0 ignores its NaN") {
  Kernels kernels;
  const Tensor self = kernels.f32({1, 1}, {NAN});
  const Tensor two = kernels.f32({1, 1}, {2});
  kernels.run(KernelId::kAddmm, {self, two, two, Scalar(0), Scalar(1)}, std::vector<Tensor>{self});
  CHECK(values_of<float>(self) == std::vector<float>{4});
  kernels.run(KernelId::kAddmm, {self, two, two, Scalar(1), Scalar(1)}, std::vector<Tensor>{self});
  CHECK(values_of<float>(self) == std::vector<float>{8});
}

TEST_CASE("bf16 products accumulate in f32 and round once") {
  Kernels kernels;
  const std::vector<std::uint16_t> tenths(4097, to_bfloat16(0.1f).bits);
  const std::vector<std::uint16_t> ones(4097, to_bfloat16(1.0f).bits);
  const Tensor row = kernels.tensor({1, 4097}, DType::kBF16, tenths);
  const Tensor column = kernels.tensor({4097, 1}, DType::kBF16, ones);
  const Tensor product = kernels.run(KernelId::kMm, {row, column}, Dims{1, 1}, DType::kBF16);
  CHECK(to_float(BFloat16{values_of<std::uint16_t>(product)[0]}) == 410.0f);
}

TEST_CASE("products, sums and turned copies get by on a small stack, as fibers have") {
  // A sanitizer's frames are several times larger.
  constexpr std::size_t kStackBytes = 128 * 1024;
  const auto body = [](void*) -> void* {
    Kernels kernels;
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kC128}) {
      const Tensor ones = kernels.run(KernelId::kOnes, {Dims{}}, Dims{150, 150}, dtype);
      const Tensor turned = ones.as_view({{150, 150}, {1, 150}, dtype}, 0);
      kernels.run(KernelId::kMm, {ones, turned}, Dims{150, 150}, dtype);
      kernels.run(KernelId::kSum, {ones, Dims{0}}, Dims{150}, dtype);
      kernels.run(KernelId::kAdd, {clone_contiguous(turned), Scalar(1)}, Dims{150, 150}, dtype);
    }
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstacksize(&attributes, kStackBytes) == 0);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, &attributes, body, nullptr) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}
