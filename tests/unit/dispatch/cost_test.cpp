// The limits on the cost of a dispatch (D-65, D-66, K-25).
#include <doctest/doctest.h>

#include "tests/unit/dispatch/op_mesh.h"
#include "tests/unit/dispatch/seen.h"

namespace shardlab {
namespace {

using test::counted;
using test::OpMesh;
using test::ops;

TEST_CASE("D-65 K-25 a call that was decided before is answered from the cache, on every rank") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {8, 4}, counted(32)),
                  y = mesh.place("S(1)", {8, 4}, counted(32));
    for (int i = 0; i < 3; ++i) ops()("aten::mul.Tensor", {x, y});
  });
  const CacheStats stats = mesh.propagator().stats();
  CHECK(stats.entries == 1);
  CHECK(stats.hits + stats.misses == 12);
  CHECK(stats.misses <= 4);
  CHECK(mesh.propagator().plans().stats().entries == 1);
}

TEST_CASE("D-65 an input that is as wanted keeps its very spec and makes no plan") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {8, 4}, counted(32));
    CHECK(ops().one("aten::mul.Tensor", {x, x}).spec() == x.spec());
  });
  CHECK(mesh.propagator().plans().stats().entries == 0);
}

TEST_CASE("D-66 K-25 explaining a call goes past the cache, both ways") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    if (rank.rank != 0) return;
    const DTensor x = mesh.place("S(0)", {8}, counted(8));
    const OpRow& row = ops().find("aten::neg");
    const OpSchema schema{&row, {x.spec()}, mesh.layout()};
    const DecisionRecord record = rank.propagator->explain(schema);
    CHECK(record.sharding.outputs[0] == x.spec());
    CHECK(rank.propagator->stats().entries == 0);
    CHECK(rank.propagator->stats().misses == 0);
    CHECK(&*rank.propagator->propagate(schema) == &*rank.propagator->propagate(schema));
  });
}

}  // namespace
}  // namespace shardlab
