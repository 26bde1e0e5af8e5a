#include <doctest/doctest.h>

#include <cmath>

#include "mesh/mesh_views.h"
#include "plan/predicted_time.h"
#include "tests/unit/plan/plan_support.h"

namespace shardlab {
namespace {

using test::SpecMaker;

double cost(SpecMaker& spec, const char* from, const char* to, const PlanOptions& options = {}) {
  return redistribute_cost(*spec(from), *spec(to), options);
}

TEST_CASE("X-31 prices of one step: recorded values") {
  SpecMaker rows({2, 2}, {9, 6});
  CHECK(cost(rows, "R S(0)", "P(avg) S(1)") == doctest::Approx(10.302606583343488).epsilon(1e-12));
  CHECK(collective_us(CollectiveKind::kAllGather, 0.25, 2, {87.7, 0.6}) ==
        doctest::Approx(1432.5135689851768).epsilon(1e-12));
  CHECK(collective_us(CollectiveKind::kAllReduce, 0.25, 2, {87.7, 0.6}) ==
        doctest::Approx(2858.4271379703537).epsilon(1e-12));
  CHECK(collective_us(CollectiveKind::kReduceScatter, 3, 2, {19.294, 2.7}) ==
        doctest::Approx(77753.67649010055).epsilon(1e-12));
}

TEST_CASE("X-31 nothing to pay: equal placements, or a replicated source") {
  SpecMaker spec({2, 2}, {8, 8});
  CHECK(cost(spec, "S(0) P", "S(0) P") == 0);
  CHECK(cost(spec, "R R", "S(0) P") == 0);
}

TEST_CASE("X-31 partial targets of a shard or another partial are never chosen") {
  SpecMaker spec({2, 2}, {8, 8});
  PlanOptions seed;
  seed.rules = PlanRules::kSeed;
  CHECK(std::isinf(cost(spec, "R S(0)", "R P")));
  CHECK(std::isinf(cost(spec, "R S(0)", "R P", seed)));
  CHECK(std::isinf(cost(spec, "R P(max)", "R P(min)")));
  CHECK(cost(spec, "R P(max)", "R P(min)", seed) == 0);
}

TEST_CASE("X-31 a strided shard costs nothing where it stays and everything where it moves") {
  SpecMaker spec({4}, {64});
  CHECK(cost(spec, "SS(0,4)", "SS(0,4)") == 0);
  CHECK(std::isinf(cost(spec, "SS(0,4)", "R")));
  CHECK(std::isinf(cost(spec, "S(0)", "SS(0,4)")));
  CHECK(redistribute_cost(*spec("SS(0,4)"), test::placements("SS(0,4)"), {}) == 0);
}

/// Prices of PyTorch 2.15 on a mesh of 2x4 for strided shards that a view left.
TEST_CASE("X-31 strided shards that a view left move for nothing, others beside them do not") {
  SpecMaker spec({2, 4}, {16, 32});
  const auto price = [&](const char* from, const char* to) {
    return redistribute_cost(*spec(from)->with(StridedShards::kPieces),
                             *spec(to)->with(StridedShards::kPieces), {});
  };
  CHECK(price("SS(0,2) R", "R R") == 0);
  CHECK(price("SS(0,2) R", "P R") == 0);
  CHECK(price("SS(0,2) S(1)", "S(0) S(1)") == 0);
  CHECK(price("R S(1)", "SS(0,2) S(1)") == 0);
  CHECK(price("SS(0,2) S(1)", "R R") == doctest::Approx(14.737071407551815).epsilon(1e-12));
  CHECK(price("SS(0,2) S(0)", "SS(0,2) R") == doctest::Approx(14.737071407551815).epsilon(1e-12));
  CHECK(price("S(1) SS(1,2)", "R S(0)") == doctest::Approx(9.303089283962652).epsilon(1e-12));
  CHECK(price("P S(1)", "SS(0,2) S(1)") == doctest::Approx(12.024714271701209).epsilon(1e-12));
  CHECK(price("S(0) SS(1,2)", "S(1) SS(1,2)") == doctest::Approx(9.312357135850606).epsilon(1e-12));
  // One that means an order and one that means none: different specs, and priced as impossible.
  const DTensorSpec* left = spec("SS(0,2) R")->with(StridedShards::kPieces);
  CHECK(left != spec("SS(0,2) R"));
  CHECK(left->same_pieces(*spec("SS(0,2) R")));
  CHECK(std::isinf(redistribute_cost(*left, *spec("SS(0,2) R"), {})));
  CHECK(std::isinf(redistribute_cost(*spec("SS(0,2) R"), *left, {})));
}

TEST_CASE("X-31 another order is priced along its graph plan") {
  SpecMaker spec({2, 2}, {8, 8});
  const DTensorSpec* swapped = spec("S(0) S(0)", {{0, {1, 0}}});
  CHECK(redistribute_cost(*swapped, *swapped, {}) == 0);
  // All-gather of 128 bytes over m0, then of 256 over m1: 2 x (6.6 + 2.7 us) and the bytes' time.
  const double gib = 1.0 / (1024.0 * 1024.0 * 1024.0);
  const double bytes_us = (128 * gib + 256 * gib) / 2 / 19.294 * 1e6;
  CHECK(redistribute_cost(*swapped, *spec("R R"), {}) ==
        doctest::Approx(2 * 9.3 + bytes_us).epsilon(1e-12));
}

TEST_CASE("M-7 links: within a host fast, across hosts slow, or as the scenario says") {
  SpecMaker spec({2, 4}, {8, 8});
  Topology topology;
  topology.devices_per_host = 4;
  CHECK(topology.link(spec.layout(), 1) == Link{87.7, 0.6});
  CHECK(topology.link(spec.layout(), 0) == Link{});
  topology.links["m0"] = {400, 5};
  CHECK(topology.link(spec.layout(), 0) == Link{400, 5});
}

TEST_CASE("X-31 a collective over several mesh dims waits for the slowest that has ranks") {
  Arena arena;
  const MeshLayout* mesh = arena.layout({.shape = {2, 4, 1}, .names = {"dp", "tp", "pp"}});
  Topology topology;
  topology.links = {{"dp", {100, 2}}, {"tp", {1, 5}}, {"pp", {0.5, 9}}};
  const std::size_t all[] = {0, 1, 2};
  CHECK(topology.slowest(*mesh, all) == Link{1, 5});
  CHECK(topology.slowest(*mesh, {all, 1}) == Link{100, 2});
  CHECK(topology.slowest(*mesh, {all + 2, 1}) == Link{});  // no other rank to wait for
}

TEST_CASE("X-31 a dim of another mesh is as slow as the dims of the first that it lies along") {
  Arena arena;
  const MeshLayout* mesh = arena.layout({.shape = {2, 4}, .names = {"dp", "tp"}});
  Topology topology;
  topology.links = {{"dp", {100, 2}}, {"tp", {1, 5}}};
  const std::string both[] = {"dp", "tp"};
  const MeshLayout* flat = flatten_layout(mesh, both, Coordinate{0, 0}, "");
  CHECK(topology.link(*flat, 0) == Link{});  // of which mesh the links are was not said
  topology.mesh = mesh;
  CHECK(topology.link(*flat, 0) == Link{1, 5});
  CHECK(topology.link(*arena.layout({{2}, {"a"}, {1, 5}}), 0) == Link{100, 2});  // along dp
  CHECK(topology.link(*arena.layout({{2}, {"b"}, {0, 5}}), 0) == Link{1, 5});    // across both
  CHECK(topology.link(*arena.layout({{2}, {"c"}, {7, 8}}), 0) == Link{});        // leaves the mesh
}

TEST_CASE("X-31 prices of all kinds: a start, hops, and what each rank sends") {
  const Link link{2, 3};  // 2 GiB/s, 3 us
  const auto us = [&](CollectiveKind kind, double gib) {
    return collective_us(kind, gib, 4, link);
  };
  CHECK(us(CollectiveKind::kAllReduce, 1) == doctest::Approx(6.6 + 6 * 3 + 1.5 / 2 * 1e6));
  CHECK(us(CollectiveKind::kAllGather, 1) == doctest::Approx(6.6 + 3 * 3 + 0.75 / 2 * 1e6));
  CHECK(us(CollectiveKind::kReduceScatter, 1) == doctest::Approx(6.6 + 3 * 3 + 0.75 / 2 * 1e6));
  CHECK(us(CollectiveKind::kAllToAll, 1) == doctest::Approx(6.6 + 1 + 3 * 3 + 0.75 / 2 * 1e6));
  CHECK(us(CollectiveKind::kBroadcast, 1) == doctest::Approx(6.6 + 3 * 3 + 0.75 / 2 * 1e6));
  CHECK(us(CollectiveKind::kPermute, 1) == doctest::Approx(6.6 + 3 + 1.0 / 2 * 1e6));
  CHECK(us(CollectiveKind::kBatch, 0) == doctest::Approx(6.6 + 3));
  CHECK(us(CollectiveKind::kBarrier, 0) == doctest::Approx(6.6 + 3 * 3));
}

// All collectives have one cost, except one kind.
class Flat final : public CollectivePrice {
 public:
  double us(CollectiveKind kind, double, std::int64_t, const Link&) const override {
    return kind == CollectiveKind::kAllGather ? 1000 : 10;
  }
};

TEST_CASE("a price of the user's own is asked for moves, choices and predicted times") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{4}, {"x"}, {}});
  const TensorMeta meta = contiguous_meta(Dims{8, 8}, DType::kF32);
  const DTensorSpec* cut = arena.spec(layout, {Placement::shard(0)}, meta);
  const DTensorSpec* pending = arena.spec(layout, {Placement::partial(ReduceOp::kSum)}, meta);
  PlanOptions options;
  options.topology.price = std::make_shared<Flat>();
  CHECK(redistribute_cost(*cut, Placements{Placement::replicate()}, options) == 1000);
  CHECK(redistribute_cost(*cut, Placements{Placement::shard(1)}, options) == 10);
  CHECK(redistribute_cost(*pending, Placements{Placement::replicate()}, options) == 10);
  CHECK(predicted_us(options.topology, CollectiveKind::kAllGather, 1, 4, {}) == 1000);
  CHECK(predicted_us(Topology{}, CollectiveKind::kAllGather, 1, 4, {}) ==
        fastest_us(CollectiveKind::kAllGather, 1, 4, {}));
}

// Steps and shares of bandwidth are those by which NCCL chooses: a ring's hop over a network takes
// 2.7 us, a tree's step 5.0 us, one of PAT 4.0 us.
TEST_CASE("predicted times: a tree where it is faster than a ring") {
  const Link link{2, 2.7};
  const auto us = [&](CollectiveKind kind, double gib, std::int64_t n) {
    return fastest_us(kind, gib, n, link);
  };
  CHECK(us(CollectiveKind::kAllReduce, 0, 1) == doctest::Approx(6.6));
  CHECK(us(CollectiveKind::kAllReduce, 0, 4) == doctest::Approx(6.6 + 6 * 2.7));
  CHECK(us(CollectiveKind::kAllReduce, 0, 2048) == doctest::Approx(6.8 + 2 * 11 * 5.0));
  CHECK(us(CollectiveKind::kAllReduce, 0, 2049) == doctest::Approx(6.8 + 2 * 12 * 5.0));
  CHECK(us(CollectiveKind::kAllGather, 0, 2048) == doctest::Approx(8 + 11 * 4.0));
  CHECK(us(CollectiveKind::kReduceScatter, 1, 2048) ==
        doctest::Approx(6.6 + 2047 * 2.7 + 2047.0 / 2048 / 2 * 1e6));  // large: a ring
  CHECK(us(CollectiveKind::kAllToAll, 0, 2048) ==
        doctest::Approx(collective_us(CollectiveKind::kAllToAll, 0, 2048, link)));
}

}  // namespace
}  // namespace shardlab
