// Ranks of the mesh: local arguments, random draws, redistribution (D-24 to D-36).
#include <doctest/doctest.h>

#include <array>

#include "dispatch/all_ops.h"
#include "dispatch/prepare.h"
#include "ops/core/meta.h"
#include "redistribute/redistribute.h"
#include "schema/binder.h"
#include "schema/op_registry.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/op_mesh.h"
#include "tests/unit/dispatch/seen.h"

namespace shardlab {
namespace {

using test::counted;
using test::kind_of;
using test::OpMesh;
using test::ops;
using test::plain;
using test::Seen;
using test::whole;
using Values = std::vector<double>;

// Arguments of the local program of my::probe, by rank.
struct Probe {
  int calls = 0;
  bool list = false;
  const Storage* storage = nullptr;
  Dims shape;
};
std::array<Probe, 4>& probes() {
  static std::array<Probe, 4> seen;
  return seen;
}

Results probe(Calls& calls, const OpRow&, const Arguments& args) {
  Probe& mine = probes()[static_cast<std::size_t>(current_rank().rank)];
  ++mine.calls;
  mine.list = args[0].is_list();
  const DTensor first = mine.list ? args[0].list()[0].tensor() : args[0].tensor();
  mine.storage = first.local().storage().get();
  mine.shape = first.shape();
  return calls("aten::clone", {first});
}
OutputMetas meta_of_first(const MetaArgs& args) {
  const TensorMeta& first = *args.tensors(0)[0];
  return {{contiguous_meta(first.shape, first.dtype)}};
}
std::vector<RuleRow> rows_cut(const RuleContext& context) {
  RuleRow row;
  row.outputs = {RulePlacement::of(Placement::shard(0))};
  row.inputs.assign(context.tensors.size(), row.outputs[0]);
  return {row};
}

const OpRegistry& registry_with_probe() {
  static const OpRegistry* const made = [] {
    auto* filled = new OpRegistry;
    register_all_ops(*filled);
    OpRow row;
    row.op = parse_op_schema("my::probe(Tensor x) -> Tensor");
    row.meta = meta_like;
    row.rule = DimRuleFn{rows_cut};
    row.compute = probe;
    filled->add(row);
    row.op = parse_op_schema("my::probe.list(Tensor[] x) -> Tensor");
    row.meta = meta_of_first;
    filled->add(std::move(row));
    return filled;
  }();
  return *made;
}

Probe probed(const char* op, Argument x) {
  Probe& mine = probes()[static_cast<std::size_t>(current_rank().rank)];
  mine = {};
  ops()(op, {std::move(x)});
  return mine;
}

TEST_CASE("D-24 O-45 a decision that moves inputs says what each of them becomes") {
  OpMesh mesh(registry_with_probe(), {2});
  mesh.run([&](RankContext& rank) {
    const DTensor a = mesh.place("S(0)", {4, 4}, counted(16));
    const DTensor b = mesh.place("S(1)", {4, 4}, counted(16));
    const OpRow& row = ops().find("aten::add.Tensor");
    const Unwrapped call = unwrap(row, bind_arguments(row, {a, b}));
    const OutputSharding decision = *rank.propagator->propagate(call.schema);
    CHECK(decision.needs_redistribute);
    REQUIRE(decision.inputs.size() == 2);
    CHECK(decision.inputs[0] == decision.inputs[1]);
  });
}

TEST_CASE("D-25 D-26 the local program runs once, on a list where the schema has one") {
  OpMesh mesh(registry_with_probe(), {2});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {3}, counted(3));
    const std::uint64_t offset = rank.random.offset;
    const Probe single = probed("my::probe", x);
    CHECK(single.calls == 1);
    CHECK_FALSE(single.list);
    const Probe listed = probed("my::probe.list", ArgumentList{x, x});
    CHECK(listed.calls == 1);
    CHECK(listed.list);
    CHECK(rank.random.offset == offset);
  });
}

TEST_CASE("D-27 a generator argument holds a generator or nothing") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {4}, Values(4, 0));
    ops()("aten::uniform_", {x, 0.0, 1.0, Argument()});
    CHECK(rank.random.offset == 4);
    CHECK(kind_of([&] { ops()("aten::uniform_", {x, 0.0, 1.0, 5}); }) == ErrorKind::kInternal);
  });
}

TEST_CASE(
    "D-28 X-12 a user's generator is used on plain tensors and on meshes, with equal numbers") {
  OpMesh mesh({3});
  mesh.run([&](RankContext& rank) {
    const auto generator = [] { return std::make_shared<RandomState>(RandomState{3, 0}); };
    const DTensor x = mesh.place("S(0)", {7}, Values(7, 0)), y = plain({7}, Values(7, 0));
    ops()("aten::normal_", {x, 0.0, 1.0, generator()});
    ops()("aten::normal_", {y, 0.0, 1.0, generator()});
    CHECK(whole(x) == read_doubles(y.local()));
    CHECK(rank.random.offset == 0);
  });
}

TEST_CASE("D-29 X-40 draws follow the result's positions, wherever its first argument is cut") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const auto drawn = [&](const char* text) {
      rank.random = {11, 0};
      return whole(ops().one("aten::rand_like", {mesh.place(text, {9}, Values(9))}));
    };
    CHECK(drawn("S(0)") == drawn("R"));
  });
}

TEST_CASE("D-30 D-31 D-32 an argument that is as wanted stays the same memory, others move") {
  OpMesh mesh(registry_with_probe(), {2});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {4}, counted(4));
    const DTensor y = mesh.place("P(sum)", {4}, counted(4));
    const Seen seen;
    const Probe stays = probed("my::probe", x);
    CHECK(stays.storage == x.local().storage().get());
    CHECK(seen.moves.empty());
    const Probe moves = probed("my::probe", y);
    CHECK(moves.storage != y.local().storage().get());
    CHECK(moves.shape == Dims{2});
    CHECK(seen.moves.size() == 1);
    const Probe second = probed("my::probe.list", ArgumentList{y, x});
    CHECK(second.shape == Dims{2});
    rank.mixed = MixedTensors::kReplicate;
    const Probe was_plain = probed("my::probe.list", ArgumentList{plain({4}, counted(4)), x});
    CHECK(was_plain.shape == Dims{2});
  });
}

TEST_CASE("D-31 R-66 a spec of another meta or order is another spec") {
  OpMesh mesh({2, 2});
  const DTensorSpec* nested = mesh.spec("S(0) S(0)", {8});
  CHECK(nested != mesh.spec("S(0) S(0)", {9}));
  CHECK(nested != mesh.spec("S(0) S(0)", {8}, DType::kF64));
  CHECK(nested != nested->with(nested->placements(), ShardOrder{1, 0}));
  CHECK(nested == mesh.spec("S(0) S(0)", {8}));
}

TEST_CASE("D-31 equal placements cut in another order are moved") {
  OpMesh mesh({2, 2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0) S(0)", {4}, {1, 2, 3, 4});
    const DTensorSpec* swapped = x.spec()->with(x.spec()->placements(), ShardOrder{1, 0});
    const DTensor y = redistribute(x, swapped);
    CHECK(whole(ops().one("aten::add.Tensor", {x, y})) == Values{2, 4, 6, 8});
  });
}

TEST_CASE("D-33 K-30 a shape argument becomes the local one, other values stay") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {3, 4}, counted(12));
    const DTensor y = ops().one("aten::view", {x, Dims{3, 2, 2}});
    CHECK(y.shape() == Dims{3, 2, 2});
    CHECK(y.local().shape() == Dims{rank.rank == 0 ? 2 : 1, 2, 2});
    const DTensor z = ops().one("aten::new_zeros", {x, Dims{5}});
    CHECK(z.local().numel() == (z.spec()->is_sharded() ? (rank.rank == 0 ? 3 : 2) : 5));
    CHECK(whole(z) == Values(5, 0));
  });
}

TEST_CASE("D-34 keyword tensors are not moved: an out tensor's placements rule") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4, 4}, counted(16));
    const DTensor out = mesh.place("S(1)", {4, 4}, Values(16, 0));
    const Seen seen;
    ops()("aten::neg.out", {x, out});
    REQUIRE(seen.moves.size() == 1);
    CHECK(seen.moves[0].argument == 0);
    CHECK(out.spec()->placement(0) == Placement::shard(1));
  });
}

TEST_CASE(
    "D-35 X-9 an observer learns argument, source, target and plan once, and changes nothing") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {4, 4}, counted(16));
    const DTensor b = mesh.place("S(1)", {4, 4}, counted(16));
    const DTensor unseen = ops().one("aten::add.Tensor", {a, b});
    const Seen seen;
    const DTensor sum = ops().one("aten::add.Tensor", {a, b});
    REQUIRE(seen.moves.size() == 1);
    const RedistributionRecord& move = seen.moves[0];
    CHECK((move.argument == 0 || move.argument == 1));
    CHECK(move.source == (move.argument == 0 ? a : b).spec());
    CHECK(move.target == sum.spec());
    REQUIRE(move.plan != nullptr);
    CHECK(move.plan->text().find("S(") != std::string::npos);
    CHECK(sum.spec() == unseen.spec());
    CHECK(whole(sum) == whole(unseen));
  });
}

TEST_CASE(
    "K-31 X-46 a pending sum beside lists is reduced first: its elements want it differently") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor whole_one = mesh.place("R", {2}, {1, 2}),
                  terms = mesh.place("P(sum)", {2}, {4, 8});
    const DTensor factor = mesh.place("P(sum)", {}, {4});
    const Results results =
        ops()("aten::_foreach_mul.Tensor", {ArgumentList{whole_one, terms}, factor});
    CHECK(whole(results[0].list()[0].tensor()) == Values{4, 8});
    CHECK(whole(results[0].list()[1].tensor()) == Values{16, 32});
  });
}

TEST_CASE("D-36 moves of an op do not change the caller's tensors") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {4, 2}, counted(8)),
                  b = mesh.place("S(1)", {4, 2}, counted(8));
    const DTensorSpec *spec_a = a.spec(), *spec_b = b.spec();
    const Values local = read_doubles(b.local());
    ops()("aten::mul.Tensor", {a, b});
    CHECK(a.spec() == spec_a);
    CHECK(b.spec() == spec_b);
    CHECK(read_doubles(b.local()) == local);
  });
}

}  // namespace
}  // namespace shardlab
