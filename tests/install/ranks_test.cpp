// A user's test on ranks: one that holds and one that does not.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <shardlab/testing.h>

using namespace shardlab;
using testing::one_device;

SHARD_TEST("holds", "tp=4") {
  const DTensor x = randn({3, 10}), w = randn({10, 2});
  const DTensor y =
      matmul(distribute_tensor(x, mesh, "tp=S(1)"), distribute_tensor(w, mesh, "tp=S(0)"));
  CHECK(type_string(y) == "f32[3, 2]{sum:tp}");
  CHECK_CLOSE(y, one_device([](auto& a, auto& b) { return matmul(a, b); }, x, w));
}

SHARD_TEST("fails", "dp=2, tp=2") {
  CHECK(rank.rank < 2);
  CHECK_CLOSE(distribute_tensor(ones({5}), mesh, "tp=S(0)"), std::vector<double>{1, 1, 1, 1, 2});
}
