#include "ops/core/view_meta.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace shardlab {
namespace {

TensorMeta meta(Dims shape, Dims stride) {
  return {std::move(shape), std::move(stride), DType::kF32};
}

TEST_CASE("strides of a view, where memory allows one") {
  struct Row {
    TensorMeta from;
    Dims shape;
    std::optional<Dims> stride;
  };
  const Row rows[] = {
      {meta({2, 3, 4}, {12, 4, 1}), {6, 4}, Dims{4, 1}},
      {meta({2, 3, 4}, {12, 4, 1}), {2, 2, 6}, Dims{12, 6, 1}},
      {meta({4, 3}, {1, 4}), {12}, std::nullopt},         // a transposed matrix
      {meta({4, 6}, {1, 4}), {4, 2, 3}, Dims{1, 12, 4}},  // splitting always works
      {meta({2, 3}, {6, 1}), {2, 3, 1}, Dims{6, 1, 1}},   // rows with gaps
      {meta({2, 3}, {6, 1}), {6}, std::nullopt},
      {meta({4, 3}, {0, 1}), {2, 2, 3}, Dims{0, 0, 1}},  // an expanded dim may be split
      {meta({}, {}), {1, 1}, Dims{1, 1}},
      {meta({0, 4}, {4, 1}), {4, 0}, Dims{1, 1}},  // no elements
      {meta({1, 5}, {77, 1}), {5}, Dims{1}},       // the stride of size 1 does not matter
  };
  for (const Row& row : rows) CHECK(view_strides(row.from, row.shape) == row.stride);
}

TEST_CASE("the open size of a view is inferred") {
  CHECK(infer_sizes(Dims{-1, 4}, 12) == Dims{3, 4});
  CHECK(infer_sizes(Dims{2, 3}, 6) == Dims{2, 3});
  CHECK_THROWS_AS(infer_sizes(Dims{-1, 5}, 12), Error);
  CHECK_THROWS_AS(infer_sizes(Dims{-1, -1}, 12), Error);
  CHECK_THROWS_AS(infer_sizes(Dims{0, -1}, 0), Error);
  CHECK_THROWS_AS(infer_sizes(Dims{5}, 12), Error);
}

TEST_CASE("expand gives broadcast dims stride 0") {
  const TensorMeta row = meta({1, 4}, {4, 1});
  CHECK(expand_meta(row, Dims{3, 4}).stride == Dims{0, 1});
  CHECK(expand_meta(row, Dims{2, 3, -1}).shape == Dims{2, 3, 4});
  CHECK(expand_meta(row, Dims{2, 3, -1}).stride == Dims{0, 0, 1});
  CHECK_THROWS_AS(expand_meta(row, Dims{4}), Error);
  CHECK_THROWS_AS(expand_meta(row, Dims{1, 8}), Error);
}

TEST_CASE("unsqueeze and permute move strides along") {
  CHECK(unsqueeze_meta(meta({3, 4}, {4, 1}), 1).stride == Dims{4, 4, 1});
  CHECK(unsqueeze_meta(meta({3, 4}, {4, 1}), 2).stride == Dims{4, 1, 1});
  CHECK(permute_meta(meta({3, 4}, {4, 1}), Dims{1, 0}).stride == Dims{1, 4});
  CHECK_THROWS_AS(permute_meta(meta({3, 4}, {4, 1}), Dims{1, 1}), Error);
  CHECK(remove_dims(meta({3, 1, 4}, {4, 4, 1}), Dims{1}).shape == Dims{3, 4});
}

}  // namespace
}  // namespace shardlab
