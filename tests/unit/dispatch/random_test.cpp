// Random numbers as X-40 has them, and the reference's offsets for comparison (K-34 to K-39).
#include <doctest/doctest.h>

#include <set>

#include "autograd/autograd.h"
#include "dispatch/dispatcher.h"
#include "tensor/host.h"
#include "tests/facts/reference_rng.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::OpMesh;
using test::ops;
using test::whole;
using Values = std::vector<double>;

TEST_CASE(
    "K-35 W-7 start: shard index times the first shard, end: the whole, both rounded up to 4") {
  OpMesh mesh({4});
  const DTensorSpec* rows = mesh.spec("S(0)", {5, 3});
  CHECK(reference_rng_offsets(*rows, {2}, 100).start == 112);
  CHECK(reference_rng_offsets(*rows, {2}, 100).end == 116);
  CHECK(reference_rng_offsets(*mesh.spec("R", {5, 3}), {3}, 0).start == 0);
}

TEST_CASE("K-35 X-40 the reference's rounded starts collide, numbers by global index do not") {
  OpMesh mesh({4});
  const DTensorSpec* rows = mesh.spec("S(0)", {8, 3});
  const auto offsets = [&](std::int64_t shard) { return reference_rng_offsets(*rows, {shard}, 0); };
  constexpr std::uint64_t kDrawn = 6;  // elements of a shard
  CHECK(offsets(1).start + kDrawn > offsets(2).start);
  CHECK(offsets(3).start + kDrawn > offsets(3).end);  // and with the numbers drawn next
  std::vector<Values> held(4);
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {8, 3}, Values(24, 0));
    held[static_cast<std::size_t>(rank.rank)] =
        read_doubles(ops().one("aten::rand_like", {x}).local());
  });
  std::set<double> different;
  for (const Values& values : held) different.insert(values.begin(), values.end());
  CHECK(different.size() == 24);
}

TEST_CASE("K-36 X-40 replicas draw the same, shards different numbers, and all ranks go on alike") {
  OpMesh mesh({2, 2});
  std::vector<Values> held(4);
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0) R", {4}, Values(4, 0));
    held[static_cast<std::size_t>(rank.rank)] =
        read_doubles(ops().one("aten::rand_like", {x}).local());
    CHECK(rank.random.offset == 4);
  });
  CHECK(held[0] == held[1]);
  CHECK(held[2] == held[3]);
  CHECK(held[0] != held[2]);
}

TEST_CASE(
    "K-37 K-38 K-39 X-40 every rank starts from the world's seed; no tracker to make, switch or "
    "miss") {
  OpMesh mesh({2}, {1, 2}, 3);
  mesh.run([&](RankContext& rank) {
    CHECK(rank.random.seed == 5);
    CHECK(rank.random.offset == 0);
    const DTensor x = mesh.place("S(0)", {3}, Values(3, 0));
    ops().one("aten::rand_like", {x});
    CHECK(rank.random.offset == 3);
  });
}

TEST_CASE("X-40 X-70 gamma numbers move with their shapes; counts do not move with rates") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor shapes = mesh.place("S(0)", {4}, {0.5, 2, 9, 40});
    require_grad(shapes);
    const DTensor y = ops().one("aten::_standard_gamma", {shapes});
    CHECK(to_string(y.spec()->placements()) == "S(0)");
    backward(ops().one("aten::sum",
                       {ops().one("aten::add.Tensor", {y, ops().one("aten::poisson", {shapes})})}));
    const DTensor given = ops().one("aten::detach", {shapes});
    const DTensor slopes =
        ops().one("aten::_standard_gamma_grad", {given, ops().one("aten::detach", {y})});
    CHECK(whole(grad_of(shapes)) == whole(slopes));
    const DTensor chances = mesh.place("R", {4}, {0.5, 0.25, 0.5, 1});
    require_grad(chances);
    const DTensor counts = ops().one("aten::binomial", {given, chances});
    CHECK(whole(counts)[3] == 40);
    CHECK(test::kind_of([&] { backward(ops().one("aten::sum", {counts})); }) ==
          ErrorKind::kUnsupported);
  });
}

}  // namespace
}  // namespace shardlab
