// Which values must agree bit for bit with the single-device run.
#include <doctest/doctest.h>

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
    CHECK(mesh.place("S(0)", {3}, {1, 2, 3}).impl()->exact);
    CHECK_FALSE(whole_sum(mesh, DType::kF32).impl()->exact);
    CHECK(whole_sum(mesh, DType::kI64).impl()->exact);
  });
}

TEST_CASE("V-4 what moves only stays exact") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4, 2}, test::counted(8));
    const DTensor moved = redistribute(x, x.spec()->with({Placement::shard(1)}));
    CHECK(moved.impl()->exact);
    CHECK(ops().one("aten::t", {moved}).impl()->exact);
    CHECK(ops().one("aten::relu", {moved}).impl()->exact);
    CHECK_FALSE(ops().one("aten::sum.dim_IntList", {x, Dims{0}}).impl()->exact);
  });
}

TEST_CASE("V-4 a result is exact if every operand is, however many there are") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("R", {3}, {4, 5, 6});
    const DTensor sum = whole_sum(mesh, DType::kF32);
    const auto joined = [](const ArgumentList& parts) {
      return ops().one("aten::cat", {parts, 0}).impl()->exact;
    };
    CHECK(joined({x, x, x}));
    CHECK_FALSE(joined({sum, x, x}));
    CHECK_FALSE(joined({x, sum, x}));
    CHECK_FALSE(joined({x, x, sum}));
    CHECK_FALSE(joined({x, x, x, sum}));
  });
}

}  // namespace
}  // namespace shardlab
