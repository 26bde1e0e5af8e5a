#include "base/rank_ranges.h"

#include <doctest/doctest.h>

#include <vector>

using shardlab::rank_ranges;

TEST_CASE("three and more consecutive ranks fold, the order is kept") {
  using Ranks = std::vector<std::int64_t>;
  CHECK(rank_ranges(Ranks{}) == "");
  CHECK(rank_ranges(Ranks{5}) == "5");
  CHECK(rank_ranges(Ranks{0, 1}) == "0,1");
  CHECK(rank_ranges(Ranks{0, 1, 2, 3, 7, 8}) == "0-3,7,8");
  CHECK(rank_ranges(Ranks{3, 2, 1, 0}) == "3,2,1,0");
}
