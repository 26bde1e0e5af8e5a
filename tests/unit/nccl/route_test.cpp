#include "backends/nccl/route.h"

#include <doctest/doctest.h>

#include <vector>

using namespace shardlab::nccl;

TEST_CASE("uneven pieces take the route on which fewer bytes move, or a little padding") {
  struct Row {
    std::vector<std::int64_t> lengths;
    std::vector<std::int64_t> hosts;
    std::int64_t padded;
    std::int64_t grouped;
    Route route;
  };
  const Row rows[] = {
      {{3, 3, 3}, {0, 0, 0}, 18, 18, Route::kEven},
      {{0, 0}, {0, 0}, 0, 0, Route::kEven},
      {{4}, {0}, 0, 0, Route::kEven},
      // One host: every rank sends its piece to two others, padded pieces are longer.
      {{4, 4, 2}, {0, 0, 0}, 24, 20, Route::kGrouped},
      {{0, 0, 5}, {0, 0, 0}, 30, 10, Route::kGrouped},
      // A row too few of many: a ring with one padded row.
      {{100, 100, 99}, {0, 0, 0}, 600, 598, Route::kPadded},
      {{17, 17, 15}, {0, 0, 0}, 102, 98, Route::kPadded},
      {{16, 16, 12}, {0, 0, 0}, 96, 88, Route::kGrouped},
      // A host each: no difference to one host.
      {{4, 4, 2}, {0, 1, 2}, 24, 20, Route::kGrouped},
      // Two hosts of two ranks: each rank would fetch the other host's pieces for itself, two times
      // 4 + 3 and two times 4 + 4; in a ring two padded pieces come to each host.
      {{4, 4, 4, 3}, {0, 0, 1, 1}, 16, 30, Route::kPadded},
      // But not when nearly all of the padding is empty.
      {{9, 0, 0, 0}, {0, 0, 1, 1}, 36, 18, Route::kGrouped},
  };
  for (const Row& row : rows) {
    CAPTURE(row.lengths.size());
    CHECK(moved(Route::kPadded, row.lengths, row.hosts) == row.padded);
    CHECK(moved(Route::kGrouped, row.lengths, row.hosts) == row.grouped);
    CHECK(route_of(row.lengths, row.hosts) == row.route);
  }
}
