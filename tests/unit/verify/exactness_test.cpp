// Values that must agree bit for bit with the single-device run.
#include <doctest/doctest.h>

#include "api/shardlab.h"
#include "autograd/tape.h"
#include "sim/log/marks.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::OpMesh;
using test::ops;

DTensor whole_sum(OpMesh& mesh, DType dtype) {
  const DTensor terms = mesh.place("P(sum)", {3}, {1, 2, 3}, dtype);
  return redistribute(terms, terms.spec()->with({Placement::replicate()}));
}

TEST_CASE("V-4 a sum of floats over ranks is not exact, one of integers is") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    Marks marks(nullptr);
    const ObserverScope observed(marks);
    CHECK(is_exact(mesh.place("S(0)", {3}, {1, 2, 3})));
    CHECK_FALSE(is_exact(whole_sum(mesh, DType::kF32)));
    CHECK(is_exact(whole_sum(mesh, DType::kI64)));
  });
}

TEST_CASE("V-4 values that only move stay exact") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    Marks marks(nullptr);
    const ObserverScope observed(marks);
    const DTensor x = mesh.place("S(0)", {4, 2}, test::counted(8));
    const DTensor moved = redistribute(x, x.spec()->with({Placement::shard(1)}));
    CHECK(is_exact(moved));
    CHECK(is_exact(ops().one("aten::t", {moved})));
    CHECK(is_exact(ops().one("aten::relu", {moved})));
    CHECK_FALSE(is_exact(ops().one("aten::sum.dim_IntList", {x, Dims{0}})));
  });
}

TEST_CASE("V-4 a result is exact if every operand is, however many there are") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    Marks marks(nullptr);
    const ObserverScope observed(marks);
    const DTensor x = mesh.place("R", {3}, {4, 5, 6});
    const DTensor sum = whole_sum(mesh, DType::kF32);
    const auto joined = [](const ArgumentList& parts) {
      return is_exact(ops().one("aten::cat", {parts, 0}));
    };
    CHECK(joined({x, x, x}));
    CHECK_FALSE(joined({sum, x, x}));
    CHECK_FALSE(joined({x, sum, x}));
    CHECK_FALSE(joined({x, x, sum}));
    CHECK_FALSE(joined({x, x, x, sum}));
  });
}

TEST_CASE("V-4 an operand that an op writes and does not return is marked as well") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    Marks marks(nullptr);
    const ObserverScope observed(marks);
    const DTensor x = mesh.place("R", {2, 3}, test::counted(6));
    const DTensor weight = mesh.place("R", {3}, {1, 1, 1}), bias = mesh.place("R", {3}, {0, 0, 0});
    const DTensor mean = mesh.place("R", {3}, {0, 0, 0}), var = mesh.place("R", {3}, {1, 1, 1});
    REQUIRE(is_exact(mean));
    ops()("aten::_native_batch_norm_legit", {x, weight, bias, mean, var, true, 0.5, 1e-5});
    CHECK_FALSE(is_exact(mean));
    CHECK_FALSE(is_exact(var));
    CHECK(is_exact(weight));
  });
}

TEST_CASE("V-4 a sum stays a sum when it is dealt out again, cast, and chosen from") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    Marks marks(nullptr);
    const ObserverScope observed(marks);
    const DTensor sum = to_local(whole_sum(mesh, DType::kF32));
    CHECK_FALSE(is_rank_local(sum));
    const DTensor dealt = distribute_tensor(sum, mesh.layout(), {Placement::shard(0)});
    CHECK_FALSE(is_exact(dealt));
    CHECK_FALSE(is_exact(ops().one("aten::argmax", {dealt, Argument(), false})));
    CHECK_FALSE(is_exact(detach(dealt)));
    const DTensor fresh = mesh.place("S(0)", {5}, {1, 2, 3, 4, 5});
    CHECK(is_exact(ops().one("aten::argmax", {fresh, Argument(), false})));
    const DTensorSpec* half = fresh.spec()->with({Placement::replicate()});
    CHECK(is_exact(redistribute(fresh, half, {}, {.forward = DType::kBF16, .backward = {}})));
  });
}

TEST_CASE("V-4 pieces and terms are the rank's own, and so is what is made of them") {
  OpMesh mesh({3});
  mesh.run([&](RankContext& rank) {
    Marks marks(nullptr);
    const ObserverScope observed(marks);
    const DTensor piece = to_local(mesh.place("S(0)", {2}, {1, 2}));
    CHECK(is_rank_local(piece));
    CHECK(is_rank_local(ops().one("aten::neg", {piece})));
    CHECK_FALSE(is_rank_local(from_local(piece, mesh.layout(), {Placement::shard(0)},
                                         contiguous_meta(Dims{2}, DType::kF32))));
    CHECK_FALSE(is_rank_local(to_local(mesh.place("R", {2}, {1, 2}))));
    const DTensor own = zeros({2});
    CHECK(is_exact(own));
    CHECK_FALSE(is_rank_local(own));
    const DTensor sum = all_reduce(own, ReduceOp::kSum, *rank.world);
    CHECK_FALSE(is_rank_local(sum));
    CHECK_FALSE(is_exact(sum));
  });
}

TEST_CASE("V-4 a collective makes ranks agree along the dims of its group, and no others") {
  OpMesh mesh({2, 2});
  mesh.run([&](RankContext&) {
    Marks marks(nullptr, mesh.layout());
    const ObserverScope observed(marks);
    const DTensor piece = to_local(mesh.place("S(0) S(1)", {2, 2}, {1, 2, 3, 4}));
    CHECK(varies_along(piece) == 0b11);
    CHECK(collected_along(piece) == 0);
    ProcessGroup& first = device_mesh(mesh.layout()).group(0);
    const DTensor along = all_reduce(piece, ReduceOp::kSum, first);
    CHECK(varies_along(along) == 0b10);
    CHECK(collected_along(along) == 0b01);
    CHECK(varies_along(ops().one("aten::neg", {along})) == 0b10);
    CHECK(varies_along(ops().one("aten::add.Tensor", {along, piece})) == 0b11);
    const DTensor written = ops().one("aten::clone", {piece});
    ops()("aten::copy_", {written, along});
    CHECK(varies_along(written) == 0b10);
  });
}

}  // namespace
}  // namespace shardlab
