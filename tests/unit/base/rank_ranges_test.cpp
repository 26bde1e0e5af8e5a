#include "base/text.h"

#include <doctest/doctest.h>

#include <vector>

using shardlab::rank_ranges;
using shardlab::shortened_ranges;

TEST_CASE("three and more consecutive ranks fold, the order is kept") {
  using Ranks = std::vector<std::int64_t>;
  CHECK(rank_ranges(Ranks{}) == "");
  CHECK(rank_ranges(Ranks{5}) == "5");
  CHECK(rank_ranges(Ranks{0, 1}) == "0,1");
  CHECK(rank_ranges(Ranks{0, 1, 2, 3, 7, 8}) == "0-3,7,8");
  CHECK(rank_ranges(Ranks{3, 2, 1, 0}) == "3,2,1,0");
}

TEST_CASE("long texts end after a whole range") {
  const std::vector<std::int64_t> ranks = {0, 2, 4, 10, 11, 12, 20};
  CHECK(shortened_ranges(ranks, 14) == "0,2,4,10-12,20");
  CHECK(shortened_ranges(ranks, 13) == "0,2,4,10-12,...");
  CHECK(shortened_ranges(ranks, 10) == "0,2,4,...");
  CHECK(shortened_ranges({}, 1).empty());
}
