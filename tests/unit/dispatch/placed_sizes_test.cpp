#include "dispatch/placed_sizes.h"

#include <doctest/doctest.h>

#ifndef __SANITIZE_THREAD__  // there nothing is remembered

namespace shardlab {
namespace {

OutputMetas one_meta(const Dims& shape) {
  OutputMetas metas;
  metas.push_back({.meta = contiguous_meta(shape, DType::kF32), .present = true});
  return metas;
}

// Without elements: only its sizes are asked for.
Tensor sized(const Dims& shape) {
  return Tensor(make_ref<Storage>(BufferRef{}), contiguous_meta(shape, DType::kF32));
}

}  // namespace

TEST_CASE("K-25 sizes are known for the same decision, coordinate and pieces only") {
  PlacedSizes sizes;
  const LocalTensors pieces{sized({2, 3}), Tensor(), sized({4})};
  sizes.keep(7, {1, 0}, pieces, one_meta({2, 4}));
  REQUIRE(sizes.find(7, {1, 0}, pieces) != nullptr);
  CHECK(sizes.find(7, {1, 0}, pieces)->front().meta.shape == Dims{2, 4});
  CHECK(sizes.find(8, {1, 0}, pieces) == nullptr);
  CHECK(sizes.find(7, {0, 1}, pieces) == nullptr);
  CHECK(sizes.find(7, {0, 0}, pieces) == nullptr);
  const LocalTensors others[] = {
      {sized({3, 2}), Tensor(), sized({4})},           {sized({2, 3}), Tensor(), sized({3})},
      {sized({2, 3}), sized({}), sized({4})},          {sized({2, 3}), Tensor()},
      {sized({2, 3}), Tensor(), sized({4}), Tensor()}, {sized({2, 3, 1}), Tensor(), sized({4})},
  };
  for (const LocalTensors& other : others) CHECK(sizes.find(7, {1, 0}, other) == nullptr);
}

TEST_CASE("K-25 a decision that is not kept has no number, and no sizes are known for it") {
  PlacedSizes sizes;
  const LocalTensors pieces{sized({2})};
  CHECK(sizes.find(0, {0}, pieces) == nullptr);
  sizes.keep(0, {0}, pieces, one_meta({2}));
  CHECK(sizes.find(0, {0}, pieces) == nullptr);
}

}  // namespace shardlab

#endif
