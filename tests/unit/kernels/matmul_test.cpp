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

namespace {

// A matrix of small whole numbers, whose products are exact, in memory by rows or by columns.
template <typename T>
struct WholeMatrix {
  std::vector<T> values;
  MatrixView<const T> view;

  WholeMatrix(std::int64_t rows, std::int64_t columns, std::int64_t seed, bool by_columns)
      : values(static_cast<std::size_t>(rows * columns)) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t at = by_columns ? c * rows + r : r * columns + c;
        values[static_cast<std::size_t>(at)] = static_cast<T>((r * 37 + c * 11 + seed) % 13 - 6);
      }
    }
    view = {values.data(), rows, columns, by_columns ? 1 : columns, by_columns ? rows : 1};
  }
  T at(std::int64_t row, std::int64_t column) const {
    return view.data[row * view.row_stride + column * view.column_stride];
  }
};

// True when multiply() gives every element the sum of its terms, and writes nothing else.
template <typename T>
bool multiplies(std::int64_t rows, std::int64_t inner, std::int64_t columns, int layout) {
  const WholeMatrix<T> a(rows, inner, 3, layout & 1), b(inner, columns, 8, layout & 2);
  const bool by_columns = layout & 4;
  constexpr std::int64_t kGap = 3;  // between the lines of the result
  const std::int64_t step = (by_columns ? rows : columns) + kGap;
  std::vector<T> out(static_cast<std::size_t>(step * (by_columns ? columns : rows)), T(-99));
  std::vector<T> expected = out;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      T sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) sum += a.at(r, k) * b.at(k, c);
      expected[static_cast<std::size_t>(by_columns ? c * step + r : r * step + c)] = sum;
    }
  }
  multiply({out.data(), rows, columns, by_columns ? 1 : step, by_columns ? step : 1}, a.view,
           b.view);
  return out == expected;
}

}  // namespace

TEST_CASE("V-31 products of every size and layout are the sums of their terms") {
  for (const std::int64_t rows : {1, 2, 3, 7, 13, 25}) {
    for (const std::int64_t inner : {1, 5, 32, 33, 249, 290, 600}) {
      for (const std::int64_t columns : {1, 2, 7, 8, 9, 16, 17, 31, 33, 47, 48, 49, 70, 97}) {
        for (int layout = 0; layout < 8; ++layout) {
          CAPTURE(rows);
          CAPTURE(inner);
          CAPTURE(columns);
          CAPTURE(layout);
          CHECK(multiplies<float>(rows, inner, columns, layout));
          CHECK(multiplies<double>(rows, inner, columns, layout));
        }
      }
    }
  }
}

TEST_CASE("V-31 products of many rows by few columns, which are cut, are the sums of their terms") {
  for (const std::int64_t columns : {49, 97}) {
    for (int layout = 0; layout < 8; ++layout) {
      CAPTURE(columns);
      CAPTURE(layout);
      CHECK(multiplies<float>(531, 300, columns, layout));
      CHECK(multiplies<double>(531, 300, columns, layout));
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
