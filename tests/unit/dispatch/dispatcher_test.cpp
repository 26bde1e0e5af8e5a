#include "dispatch/dispatcher.h"

#include <doctest/doctest.h>

#include <limits>

#include "comm/observer.h"
#include "tensor/host.h"
#include "tests/facts/reference_rng.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::counted;
using test::kind_of;
using test::local_values;
using test::OpMesh;
using test::ops;
using test::plain;
using test::whole;
using Values = std::vector<double>;

/// Counts the warnings to an observer.
class Warnings : public Observer {
 public:
  void op_begins(const OpSchema&, const OutputSharding&) override {}
  void op_ends() override {}
  void redistribution(const RedistributionRecord&) override {}
  void collective(const CollectiveRecord&) override {}
  void warning(const std::string&) override { ++count; }
  int count = 0;
};

TEST_CASE("D-11 X-11 the mesh may come from a keyword tensor") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor out = mesh.place("R", {}, {0});
    const Results results = ops()("aten::add.out", {plain({}, {2}), plain({}, {3}), 1, out});
    CHECK(results[0].tensor().is_same(out));
    CHECK(whole(out) == Values{5});
  });
}

TEST_CASE("O-35 inputs on different meshes are refused") {
  OpMesh mesh({2, 2});
  mesh.run([&](RankContext& rank) {
    const MeshLayout* rows = mesh.layout()->arena().layout({{4}, {}, {}});
    rank.meshes->construct(rows);
    const DTensor a = mesh.place("S(0) R", {4}, counted(4));
    const DTensor b = from_local(plain({1}, {1}), rows, {Placement::shard(0)});
    CHECK(kind_of([&] { ops()("aten::add.Tensor", {a, b}); }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("O-15 each entry of a list is computed on its own mesh") {
  OpMesh mesh({2, 2});
  mesh.run([&](RankContext& rank) {
    const MeshLayout* rows = mesh.layout()->arena().layout({{4}, {}, {}});
    rank.meshes->construct(rows);
    const double own = static_cast<double>(rank.rank);
    const DTensor a = mesh.place("S(0) R", {4}, counted(4));
    const DTensor b = from_local(plain({1}, {own}), rows, {Placement::shard(0)});
    const Argument factors = ArgumentList{2.0, 3.0, 5.0};
    const Results products =
        ops()("aten::_foreach_mul.ScalarList", {ArgumentList{a, b, a}, factors});
    const ArgumentList& list = products[0].list();
    CHECK(whole(list[0].tensor()) == Values{0, 2, 4, 6});
    CHECK(list[1].tensor().spec()->layout() == rows);
    CHECK(local_values(list[1].tensor()) == Values{3 * own});
    CHECK(whole(list[2].tensor()) == Values{0, 5, 10, 15});
    CHECK(ops()("aten::_foreach_add_.Scalar", {ArgumentList{b, a}, 1}).empty());
    CHECK(local_values(b) == Values{own + 1});
    CHECK(whole(a) == Values{1, 2, 3, 4});
    // One entry on two meshes has none of its own.
    CHECK(kind_of([&] {
            ops()("aten::_foreach_add.List", {ArgumentList{a, b}, ArgumentList{b, a}});
          }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("D-23 D-37 W-9 ranks outside the mesh get empty pieces and zero scalars") {
  OpMesh mesh({2}, {1, 2}, 4);
  mesh.run([&](RankContext& rank) {
    const bool outside = rank.rank == 0 || rank.rank == 3;
    const DTensor a = mesh.place("S(0)", {4, 4}, counted(16));
    const DTensor b = mesh.place("R", {4, 4}, counted(16));
    const DTensor sum = ops().one("aten::add.Tensor", {a, b});
    CHECK(sum.shape() == Dims{4, 4});
    CHECK(sum.local().shape() == (outside ? Dims{0} : Dims{2, 4}));
    const DTensor total = ops().one("aten::sum", {sum});
    CHECK(total.local().shape() == Dims{});
    if (outside) CHECK(read_doubles(total.local()) == Values{0});
    const Results halves = ops()("aten::split.Tensor", {sum, 2, 1});
    REQUIRE(halves[0].list().size() == 2);
    CHECK(halves[0].list()[1].tensor().local().shape() == (outside ? Dims{0} : Dims{2, 2}));
  });
}

TEST_CASE("D-39 W-9 an absent result outside the mesh is unsupported") {
  OpMesh mesh({2}, {1, 2}, 3);
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {4, 2}, counted(8));
    const DTensor mean = mesh.place("S(0)", {4, 1}, counted(4));
    const auto call = [&] {
      ops()("aten::native_layer_norm_backward",
            {x, x, Dims{2}, mean, mean, Argument(), Argument(), ArgumentList{true, false, false}});
    };
    if (rank.rank == 0) {
      CHECK(kind_of(call) == ErrorKind::kUnsupported);
    } else {
      call();
    }
  });
}

TEST_CASE("D-41 D-42 X-35 W-9 equal gives one answer to the whole world") {
  OpMesh mesh({2}, {1, 2}, 4);
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {3}, {1, 2, 3});
    const DTensor same = mesh.place("R", {3}, {1, 2, 3});
    const DTensor other = mesh.place("P(sum)", {3}, {1, 2, 4});
    CHECK(ops()("aten::equal", {a, same})[0].to_bool());
    CHECK_FALSE(ops()("aten::equal", {a, other})[0].to_bool());
  });
}

TEST_CASE("D-44 an in-place op returns the handle it wrote; views see the write") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3, 2}, counted(6));
    const DTensor view = ops().one("aten::t", {x});
    const DTensorSpec* spec = x.spec();
    const DTensor y = mesh.place("R", {3, 2}, Values(6, 10));
    CHECK(ops().one("aten::add_.Tensor", {x, y}).is_same(x));
    CHECK(x.spec() == spec);
    CHECK(whole(x) == Values{10, 11, 12, 13, 14, 15});
    CHECK(whole(view) == Values{10, 12, 14, 11, 13, 15});
  });
}

TEST_CASE("D-45 squeeze_ gives the handle the spec of the result") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(1)", {1, 3, 1}, counted(3));
    CHECK(ops().one("aten::squeeze_.dim", {x, 0}).is_same(x));
    CHECK(x.spec()->shape() == Dims{3, 1});
    CHECK(x.spec()->placement(0) == Placement::shard(0));
    CHECK(x.local().dim() == 2);
    CHECK(whole(x) == counted(3));
  });
}

TEST_CASE("X-13 an in-place op that would move its target is refused, the target stays") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("P(sum)", {3}, {-1, 2, 3});
    CHECK(kind_of([&] { ops()("aten::relu_", {x}); }) == ErrorKind::kRuntime);
    CHECK(whole(x) == Values{-1, 2, 3});
  });
}

TEST_CASE("D-48 D-49 an out tensor keeps its placements, the inputs follow") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {3, 2}, counted(6));
    const DTensor columns = mesh.place("S(1)", {3, 2}, Values(6, 0));
    const Results results = ops()("aten::add.out", {x, x, 1, columns});
    CHECK(results[0].tensor().is_same(columns));
    CHECK(columns.spec()->placement(0) == Placement::shard(1));
    CHECK(read_doubles(columns.local()) == (rank.rank == 0 ? Values{0, 4, 8} : Values{2, 6, 10}));
  });
}

TEST_CASE("D-48 an out tensor of another shape takes the result's") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("R", {3, 2}, counted(6));
    const DTensor out = mesh.place("S(0)", {0}, {});
    ops()("aten::add.out", {x, x, 1, out});
    CHECK(out.spec()->shape() == Dims{3, 2});
    CHECK(out.local().shape() == Dims{rank.rank == 0 ? 2 : 1, 2});
    CHECK(whole(out) == Values{0, 2, 4, 6, 8, 10});
  });
}

TEST_CASE("D-56 D-57 D-58 D-59 W-10 plain tensors beside distributed ones") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    Warnings warnings;
    rank.observer = &warnings;
    rank.mode |= kModeObserve;
    const DTensor x = mesh.place("S(0)", {8, 4}, Values(32, 1));
    const auto add = [&](const DTensor& other) {
      return ops().one("aten::add.Tensor", {x, other});
    };
    CHECK(whole(add(plain({}, {2}))) == Values(32, 3));
    CHECK(warnings.count == 0);
    CHECK(whole(add(plain({1}, {2}))) == Values(32, 3));
    CHECK(warnings.count == 1);
    CHECK(whole(add(plain({1, 1}, {2}))) == Values(32, 3));
    CHECK(warnings.count == 1);
    CHECK(kind_of([&] { add(plain({0}, {})); }) == ErrorKind::kRuntime);
    try {
      add(plain({8, 4}, Values(32, 2)));
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kRuntime);
      REQUIRE(error.find("fix") != nullptr);
      CHECK(error.find("fix")->find("sim/README.md#mixed-tensors") != std::string::npos);
    }
    rank.mixed = MixedTensors::kReplicate;
    CHECK(whole(add(plain({8, 4}, Values(32, 2)))) == Values(32, 3));
    rank.mode &= ~static_cast<std::uint32_t>(kModeObserve);
  });
}

TEST_CASE("X-37 item reads replicas, pending reductions and the one element of a shard") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const auto item = [&](const DTensor& x) {
      return ops()("aten::_local_scalar_dense", {x})[0].to_double();
    };
    CHECK(item(mesh.place("R", {}, {4})) == 4);
    CHECK(item(mesh.place("P(sum)", {}, {4})) == 4);
    CHECK(item(mesh.place("P(max)", {1}, {-4})) == -4);
    CHECK(item(mesh.place("S(0)", {1}, {7})) == 7);
    const DTensor two = mesh.place("S(0)", {2}, {1, 2});
    CHECK(kind_of([&] { item(two); }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("W-7 K-34 the reference's random offsets, for comparison") {
  OpMesh grid({2, 3});
  const DTensorSpec* swapped = grid.spec("S(1) S(0)", {6, 8});
  const ReferenceOffsets offsets = reference_rng_offsets(*swapped, {1, 2}, 0);
  CHECK(offsets.start == 40);
  CHECK(offsets.end == 48);
  OpMesh line({4});
  const DTensorSpec* rows = line.spec("S(0)", {5, 3});
  std::vector<std::uint64_t> starts;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    starts.push_back(reference_rng_offsets(*rows, {rank}, 0).start);
    CHECK(reference_rng_offsets(*rows, {rank}, 0).end == 16);
  }
  CHECK(starts == std::vector<std::uint64_t>{0, 8, 12, 20});
}

TEST_CASE("X-40 random values follow global positions; every rank's state advances alike") {
  Values single;
  OpMesh one({1});
  one.run([&](RankContext&) {
    single = whole(ops().one("aten::rand_like", {one.place("R", {5, 3}, Values(15, 0))}));
  });
  OpMesh mesh({2, 2}, {1, 2, 4, 5}, 6);
  for (const char* text : {"R R", "S(0) S(0)", "S(0) S(1)", "S(1) R", "P(sum) S(0)"}) {
    CAPTURE(text);
    mesh.run([&](RankContext& rank) {
      const DTensor x = mesh.place(text, {5, 3}, Values(15, 0));
      const DTensor drawn = ops().one("aten::rand_like", {x});
      if (mesh.layout()->coordinate_of(rank.rank)) CHECK(whole(drawn) == single);
      CHECK(rank.random.offset == 15);
    });
  }
}

TEST_CASE("X-40 a user's generator supplies the numbers and advances instead") {
  OpMesh mesh({2}, {1, 2}, 3);
  mesh.run([&](RankContext& rank) {
    const Generator generator = std::make_shared<RandomState>(RandomState{9, 4});
    const DTensor x = mesh.place("S(0)", {7}, Values(7, 0));
    ops()("aten::uniform_", {x, 0.0, 1.0, generator});
    CHECK(generator->offset == 11);
    CHECK(rank.random.offset == 0);
  });
}

}  // namespace
}  // namespace shardlab
