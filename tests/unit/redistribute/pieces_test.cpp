// Sizes as torch.chunk cuts: full pieces first, then a shorter one, then empty ones.
#include "redistribute/pieces.h"

#include <doctest/doctest.h>

#include <vector>

namespace shardlab {
namespace {

std::vector<std::int64_t> lengths(std::int64_t length, std::int64_t count, const Placement& shard) {
  const PieceLengths made = piece_lengths(length, count, shard);
  return {made.begin(), made.end()};
}

TEST_CASE("lengths of the pieces of a dim: even, uneven, empty") {
  const struct {
    std::int64_t length, count;
    std::vector<std::int64_t> wanted;
  } cases[] = {
      {8, 4, {2, 2, 2, 2}}, {10, 4, {3, 3, 3, 1}},         {9, 4, {3, 3, 3, 0}},
      {5, 4, {2, 2, 1, 0}}, {2, 4, {1, 1, 0, 0}},          {0, 3, {0, 0, 0}},
      {7, 1, {7}},          {6, 7, {1, 1, 1, 1, 1, 1, 0}},
  };
  for (const auto& row : cases) {
    CAPTURE(row.length);
    CAPTURE(row.count);
    CHECK(lengths(row.length, row.count, Placement::shard(0)) == row.wanted);
  }
}

TEST_CASE("a strided shard takes a piece of every chunk") {
  // Chunks of 4 and 3 elements, of which each coordinate takes 2, then 2 and 1.
  CHECK(lengths(7, 2, Placement::strided_shard(0, 2)) == std::vector<std::int64_t>{4, 3});
  // Chunks of 2, 2 and 1: the last has nothing for the second coordinate.
  CHECK(lengths(5, 2, Placement::strided_shard(0, 3)) == std::vector<std::int64_t>{3, 2});
}

}  // namespace
}  // namespace shardlab
