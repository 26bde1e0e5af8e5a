// Kernels that move whole slices: the elements afterwards, written out.
#include <doctest/doctest.h>

#include <complex>

#include "base/error.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

using Floats = std::vector<float>;
using Tensors = std::vector<Tensor>;

// [rows, columns] with 1, 2, 3, ... in it.
Tensor counting(Kernels& kernels, std::int64_t rows, std::int64_t columns) {
  Floats values;
  for (std::int64_t i = 0; i < rows * columns; ++i) values.push_back(float(i + 1));
  return kernels.f32({rows, columns}, values);
}

// Elements 0, 1, 2, ... of [3, 4, 5], in that order in memory or with the last dim outermost.
template <typename T>
Tensor counted_block(Kernels& kernels, DType dtype, bool is_turned) {
  std::vector<T> values;
  for (int i = 0; i < 60; ++i) {
    const int row_major = is_turned ? i % 12 * 5 + i / 12 : i;
    values.push_back(T(static_cast<float>(row_major)));
  }
  const Tensor x =
      kernels.tensor<T>({is_turned ? 5 : 3, is_turned ? 3 : 4, is_turned ? 4 : 5}, dtype, values);
  return is_turned ? x.as_view({{3, 4, 5}, {4, 1, 12}, dtype}, 0) : x;
}

// Places 2, 0, 2 of each dim by index_select, and by gather with the same indices.
template <typename T>
void check_selected(Kernels& kernels, DType dtype, bool is_turned) {
  CAPTURE(to_string(dtype));
  CAPTURE(is_turned);
  const Tensor x = counted_block<T>(kernels, dtype, is_turned);
  const std::int64_t places[] = {2, 0, 2};
  const Tensor index = kernels.i64({3}, {2, 0, 2});
  for (std::size_t dim = 0; dim < 3; ++dim) {
    CAPTURE(dim);
    Dims shape{3, 4, 5};
    shape[dim] = 3;
    std::vector<T> expected;
    std::vector<std::int64_t> along;
    for (std::int64_t i = 0; i < shape[0] * shape[1] * shape[2]; ++i) {
      std::int64_t at[] = {i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]};
      at[dim] = places[at[dim]];
      along.push_back(at[dim]);
      expected.push_back(T(static_cast<float>((at[0] * 4 + at[1]) * 5 + at[2])));
    }
    const Scalar chosen(static_cast<std::int64_t>(dim));
    CHECK(values_of<T>(kernels.run(KernelId::kIndexSelect, {x, chosen, index}, shape, dtype)) ==
          expected);
    CHECK(values_of<T>(kernels.run(KernelId::kGather,
                                   {x, chosen, kernels.i64(shape, along), Scalar(false)}, shape,
                                   dtype)) == expected);
  }
}

}  // namespace

TEST_CASE("index_select and gather along every dim, of elements of every size, however they lie") {
  Kernels kernels;
  for (const bool is_turned : {false, true}) {
    check_selected<std::uint8_t>(kernels, DType::kU8, is_turned);
    check_selected<std::int16_t>(kernels, DType::kI16, is_turned);
    check_selected<float>(kernels, DType::kF32, is_turned);
    check_selected<double>(kernels, DType::kF64, is_turned);
    check_selected<std::complex<double>>(kernels, DType::kC128, is_turned);
  }
}

TEST_CASE("cat joins uneven pieces along any dim, empty ones included") {
  Kernels kernels;
  const Tensor a = counting(kernels, 2, 2), b = kernels.f32({1, 2}, {8, 9});
  const Tensor none = kernels.f32({0, 2}, {}), legacy = kernels.f32({0}, {});
  const Tensor rows =
      kernels.run(KernelId::kCat, {Tensors{a, none, b, legacy}, Scalar(0)}, Dims{3, 2});
  CHECK(values_of<float>(rows) == Floats{1, 2, 3, 4, 8, 9});
  const Tensor column = kernels.f32({2, 1}, {-1, -2});
  const Tensor wide =
      kernels.run(KernelId::kCat, {Tensors{column, turned(a)}, Scalar(-1)}, Dims{2, 3});
  CHECK(values_of<float>(wide) == Floats{-1, 1, 3, -2, 2, 4});
}

TEST_CASE("cat converts to the dtype of the result") {
  Kernels kernels;
  const Tensor integers = kernels.i64({2}, {1, -2}), floats = kernels.f32({1}, {0.5f});
  CHECK(values_of<float>(kernels.run(KernelId::kCat, {Tensors{integers, floats}, Scalar(0)},
                                     Dims{3})) == Floats{1, -2, 0.5f});
}

TEST_CASE("stack makes a new dim in front, between and behind") {
  Kernels kernels;
  const Tensor a = counting(kernels, 1, 2), b = kernels.f32({1, 2}, {8, 9});
  const auto stacked = [&](std::int64_t dim, const Dims& shape) {
    return values_of<float>(kernels.run(KernelId::kStack, {Tensors{a, b}, Scalar(dim)}, shape));
  };
  CHECK(stacked(0, Dims{2, 1, 2}) == Floats{1, 2, 8, 9});
  CHECK(stacked(1, Dims{1, 2, 2}) == Floats{1, 2, 8, 9});
  CHECK(stacked(2, Dims{1, 2, 2}) == Floats{1, 8, 2, 9});
  CHECK(stacked(-1, Dims{1, 2, 2}) == Floats{1, 8, 2, 9});
}

TEST_CASE("a reshape reads in row-major order, whatever the strides") {
  Kernels kernels;
  const Tensor x = turned(counting(kernels, 2, 3));  // 1 4 / 2 5 / 3 6
  CHECK(values_of<float>(kernels.run(KernelId::kReshapeCopy, {x, Dims{2, 3}}, Dims{2, 3})) ==
        Floats{1, 4, 2, 5, 3, 6});
  const Tensor none = kernels.f32({0, 3}, {});
  CHECK(kernels.run(KernelId::kReshapeCopy, {none, Dims{3, 0}}, Dims{3, 0}).numel() == 0);
  CHECK_THROWS_AS(kernels.run(KernelId::kReshapeCopy, {x, Dims{4}}, Dims{4}), Error);
}

TEST_CASE("index_select repeats, reorders and leaves out; an index outside is refused") {
  Kernels kernels;
  const Tensor x = counting(kernels, 3, 2);
  const Tensor index = kernels.i64({4}, {2, 0, 2, 1});
  CHECK(values_of<float>(kernels.run(KernelId::kIndexSelect, {x, Scalar(0), index}, Dims{4, 2})) ==
        Floats{5, 6, 1, 2, 5, 6, 3, 4});
  const Tensor narrow = kernels.tensor<std::int32_t>({1}, DType::kI32, {1});
  CHECK(values_of<float>(kernels.run(KernelId::kIndexSelect, {turned(x), Scalar(0), narrow},
                                     Dims{1, 3})) == Floats{2, 4, 6});
  const Tensor nothing = kernels.i64({0}, {});
  CHECK(kernels.run(KernelId::kIndexSelect, {x, Scalar(1), nothing}, Dims{3, 0}).numel() == 0);
  for (const std::int64_t outside : {-1, 3}) {
    CHECK_THROWS_AS(kernels.run(KernelId::kIndexSelect, {x, Scalar(0), kernels.i64({1}, {outside})},
                                Dims{1, 2}),
                    Error);
  }
}

TEST_CASE("the gradient of a slice stands where the slice was, zeros around it") {
  Kernels kernels;
  const Tensor grad = kernels.f32({2}, {7, 8});
  const auto spread = [&](std::int64_t start, std::int64_t step, std::int64_t size) {
    return values_of<float>(kernels.run(
        KernelId::kSliceBackward,
        {grad, Dims{size}, Scalar(0), Scalar(start), Scalar(std::int64_t{1} << 62), Scalar(step)},
        Dims{size}));
  };
  CHECK(spread(0, 1, 3) == Floats{7, 8, 0});
  CHECK(spread(-2, 1, 4) == Floats{0, 0, 7, 8});
  CHECK(spread(1, 3, 5) == Floats{0, 7, 0, 0, 8});
  const Tensor columns = kernels.f32({2, 1}, {7, 8});
  CHECK(values_of<float>(kernels.run(
            KernelId::kSliceBackward,
            {columns, Dims{2, 3}, Scalar(1), Scalar(2), Scalar(3), Scalar(1)}, Dims{2, 3})) ==
        Floats{0, 0, 7, 0, 0, 8});
  const Tensor nothing = kernels.f32({0}, {});
  CHECK(
      values_of<float>(kernels.run(KernelId::kSliceBackward,
                                   {nothing, Dims{2}, Scalar(0), Scalar(9), Scalar(12), Scalar(1)},
                                   Dims{2})) == Floats{0, 0});
}

TEST_CASE("the gradient of a selection fills one row or column") {
  Kernels kernels;
  const Tensor grad = kernels.f32({3}, {7, 8, 9});
  CHECK(values_of<float>(kernels.run(KernelId::kSelectBackward,
                                     {grad, Dims{2, 3}, Scalar(0), Scalar(1)}, Dims{2, 3})) ==
        Floats{0, 0, 0, 7, 8, 9});
  CHECK(values_of<float>(kernels.run(KernelId::kSelectBackward,
                                     {grad, Dims{3, 2}, Scalar(-1), Scalar(-2)}, Dims{3, 2})) ==
        Floats{7, 0, 8, 0, 9, 0});
}

TEST_CASE("flip turns the dims that it is given around, and none for an empty list") {
  Kernels kernels;
  const Tensor x = counting(kernels, 2, 3);
  const auto flipped = [&](const Dims& dims) {
    return values_of<float>(kernels.run(KernelId::kFlip, {x, dims}, Dims{2, 3}));
  };
  CHECK(flipped({0}) == Floats{4, 5, 6, 1, 2, 3});
  CHECK(flipped({-1}) == Floats{3, 2, 1, 6, 5, 4});
  CHECK(flipped({0, 1}) == Floats{6, 5, 4, 3, 2, 1});
  CHECK(flipped({}) == Floats{1, 2, 3, 4, 5, 6});
  CHECK(kernels.run(KernelId::kFlip, {kernels.f32({0, 2}, {}), Dims{0}}, Dims{0, 2}).numel() == 0);
}

TEST_CASE("repeat lays a tensor beside itself, also along new dims") {
  Kernels kernels;
  const Tensor x = counting(kernels, 1, 2);
  CHECK(values_of<float>(kernels.run(KernelId::kRepeat, {x, Dims{2, 2}}, Dims{2, 4})) ==
        Floats{1, 2, 1, 2, 1, 2, 1, 2});
  CHECK(values_of<float>(kernels.run(KernelId::kRepeat, {x, Dims{2, 1, 1}}, Dims{2, 1, 2})) ==
        Floats{1, 2, 1, 2});
  CHECK(values_of<float>(kernels.run(KernelId::kRepeat,
                                     {turned(counting(kernels, 2, 2)), Dims{1, 2}}, Dims{2, 4})) ==
        Floats{1, 3, 1, 3, 2, 4, 2, 4});
  CHECK(kernels.run(KernelId::kRepeat, {x, Dims{3, 0}}, Dims{3, 0}).numel() == 0);
  const Tensor scalar = kernels.f32({}, {5});
  CHECK(values_of<float>(kernels.run(KernelId::kRepeat, {scalar, Dims{3}}, Dims{3})) ==
        Floats{5, 5, 5});
}

TEST_CASE("padding: from the last dim on, negative crops, both at once, all gone") {
  Kernels kernels;
  const Tensor x = counting(kernels, 2, 2);
  const auto padded = [&](const Dims& pad, const Dims& shape) {
    return values_of<float>(kernels.run(KernelId::kConstantPadNd, {x, pad, Scalar(0.5)}, shape));
  };
  const float h = 0.5f;
  CHECK(padded({1, 0}, Dims{2, 3}) == Floats{h, 1, 2, h, 3, 4});
  CHECK(padded({0, 0, 1, 1}, Dims{4, 2}) == Floats{h, h, 1, 2, 3, 4, h, h});
  CHECK(padded({-1, 1}, Dims{2, 2}) == Floats{2, h, 4, h});
  CHECK(padded({0, -1, -1, 0}, Dims{1, 1}) == Floats{3});
  CHECK(padded({-3, 4}, Dims{2, 3}) == Floats{h, h, h, h, h, h});
}
