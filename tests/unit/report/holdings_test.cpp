// Pieces, their sums over all ranks and the owners of every block, counted by hand.
#include "sim/report/holdings.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/unit/report/report_text.h"

using namespace shardlab;

namespace {

using test::read;
using Numbers = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("B-60 7 rows over 4 ranks: 2, 2, 2 and 1, at 0, 2, 4 and 6") {
  Arena arena;
  const DTensorSpec* spec = read(arena, {4}, {"x"}, "bf16[7@x, 3]");
  const Numbers rows = {2, 2, 2, 1}, offsets = {0, 2, 4, 6};
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const Holding holding = holding_at(*spec, static_cast<std::int64_t>(rank));
    CHECK(holding.rank == static_cast<std::int64_t>(rank));
    CHECK(holding.shape == Dims{rows[rank], 3});
    CHECK(holding.offset == Dims{offsets[rank], 0});
    CHECK(holding.elements == rows[rank] * 3);
    CHECK(holding.bytes == rows[rank] * 6);
  }
  const HoldingTotals totals = totals_of(*spec);
  CHECK(totals.elements == 21);
  CHECK(totals.bytes == 42);
  CHECK(totals.largest == 6);
  CHECK(totals.smallest == 3);
  CHECK(totals.empty_ranks == 0);
  CHECK(totals.imbalance(4) == doctest::Approx(6 / (21.0 / 4)));
}

TEST_CASE("B-60 one row over four ranks: three hold nothing") {
  Arena arena;
  const HoldingTotals totals = totals_of(*read(arena, {4}, {"x"}, "f32[1@x]"));
  CHECK(totals.elements == 1);
  CHECK(totals.empty_ranks == 3);
  CHECK(totals.smallest == 0);
  CHECK(totals.imbalance(4) == 4);
  REQUIRE(totals.shapes.size() == 2);
  CHECK(totals.shapes[0].shape == Dims{1});
  CHECK(totals.shapes[0].ranks == 1);
  CHECK(totals.shapes[1].shape == Dims{0});
  CHECK(totals.shapes[1].ranks == 3);
}

TEST_CASE("B-60 a tensor without elements is balanced") {
  Arena arena;
  const HoldingTotals totals = totals_of(*read(arena, {2}, {"x"}, "f32[0@x, 3]"));
  CHECK(totals.bytes == 0);
  CHECK(totals.empty_ranks == 2);
  CHECK(totals.imbalance(2) == 1);
}

TEST_CASE("B-60 replicas count once per rank that holds them") {
  Arena arena;
  const HoldingTotals totals = totals_of(*read(arena, {2, 3}, {"x", "y"}, "f32[4@x]"));
  CHECK(totals.elements == 12);
  CHECK(totals.imbalance(6) == 1);
}

TEST_CASE("B-60 blocks lie between all places where some piece begins or ends") {
  Arena arena;
  const OwnerGrid grid = owner_grid(*read(arena, {2, 2}, {"x", "y"}, "f32[3@x, 2]"));
  CHECK(grid.row_starts == Numbers{0, 2, 3});
  CHECK(grid.column_starts == Numbers{0, 2});
  REQUIRE(grid.owners.size() == 2);
  CHECK(grid.owners[0][0] == Owners{0, 1});
  CHECK(grid.owners[1][0] == Owners{2, 3});
}

TEST_CASE("B-60 a line of elements has one row; a dim cut twice goes by its order") {
  Arena arena;
  const OwnerGrid grid = owner_grid(*read(arena, {2, 2}, {"x", "y"}, "f32[5@(y,x)]"));
  CHECK(grid.row_starts == Numbers{0, 1});
  // y cuts 5 into 3 and 2, x cuts 3 into 2 and 1, and 2 into 1 and 1.
  CHECK(grid.column_starts == Numbers{0, 2, 3, 4, 5});
  REQUIRE(grid.owners.size() == 1);
  CHECK(grid.owners[0][0] == Owners{0});
  CHECK(grid.owners[0][1] == Owners{2});
  CHECK(grid.owners[0][2] == Owners{1});
  CHECK(grid.owners[0][3] == Owners{3});
}

TEST_CASE("B-60 owners: ranges of replicas, terms joined by a plus") {
  Arena arena;
  const DTensorSpec* replicas = read(arena, {8}, {"x"}, "f32[2]");
  CHECK(owners_text(*replicas, {0, 1, 2, 3}) == "0-3");
  CHECK(owners_text(*replicas, {0, 3}) == "0,3");
  CHECK(owners_text(*replicas, {5}) == "5");
  const DTensorSpec* terms = read(arena, {2, 2}, {"x", "y"}, "f32[2]{sum:x}");
  CHECK(owners_text(*terms, {0, 2}) == "0+2");
  CHECK(owners_text(*terms, {0, 1, 2, 3}) == "0+2,1+3");
}

TEST_CASE("B-60 sums that no 64 bits hold are refused with a way out") {
  Arena arena;
  const DTensorSpec* spec =
      read(arena, {4}, {"x"}, "f64[1048576, 1048576, 262144]");  // 2^58 elements of 8 bytes
  try {
    totals_of(*spec);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kValue);
    CHECK(error.summary() == "all ranks together hold more than 2^63 bytes");
    CHECK(error.find("fix") != nullptr);
  }
}
