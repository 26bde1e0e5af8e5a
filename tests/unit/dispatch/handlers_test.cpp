// Ops that do not follow the common path (D-60 to D-64, K-23).
#include <doctest/doctest.h>

#include <limits>

#include "dispatch/all_ops.h"
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

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr const char* kUnscale = "aten::_amp_foreach_non_finite_check_and_unscale_";

// The flag of this rank after a check of gradients, scaled by a half.
double found(const ArgumentList& gradients) {
  const DTensor flag = plain({1}, {0});
  ops()(kUnscale, {gradients, flag, plain({1}, {0.5})});
  return read_doubles(flag.local())[0];
}

Results squared(Calls& calls, const OpRow&, const Arguments& args) {
  return {calls.one("aten::mul.Tensor", {args[0], args[0]})};
}

TEST_CASE("D-60 is_same_size compares global shapes of any mix, without communication") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {4, 3}, counted(12)),
                  b = mesh.place("S(1)", {4, 3}, counted(12));
    const auto same = [&](const DTensor& x, const DTensor& y) {
      return ops()("aten::is_same_size", {x, y})[0].to_bool();
    };
    const Seen seen;
    CHECK(same(a, b));
    CHECK(same(a, plain({4, 3}, counted(12))));
    CHECK_FALSE(same(a, plain({2, 3}, counted(6))));
    CHECK(same(plain({2}, {1, 2}), plain({2}, {3, 4})));
    CHECK(seen.collectives.empty());
  });
}

TEST_CASE("D-62 gradients are unscaled in place, the flag stays when all are finite") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {3}, {2, 4, 6}), b = mesh.place("P(sum)", {2}, {8, 10});
    CHECK(found({a, b}) == 0);
    CHECK(whole(a) == Values{1, 2, 3});
    CHECK(whole(b) == Values{4, 5});
  });
}

TEST_CASE("D-62 D-64 one rank's infinity is every rank's, whatever stands first in the list") {
  OpMesh mesh({2, 2});
  mesh.run([&](RankContext&) {
    const DTensor fine = mesh.place("R R", {2}, {1, 2});
    const DTensor rows = mesh.place("S(0) R", {4}, {1, 2, 3, kInfinity});
    const DTensor columns = mesh.place("R S(1)", {2, 2}, {1, std::nan(""), 3, 4});
    CHECK(found({fine, rows}) == 1);
    CHECK(found({rows, fine}) == 1);
    CHECK(found({fine, columns, rows}) == 1);
    CHECK(found({fine}) == 0);
    const DTensor nothing = mesh.place("S(0) S(0)", {1}, {-kInfinity});
    CHECK(found({nothing}) == 1);
  });
}

TEST_CASE(
    "D-63 an empty list leaves the flag, gradients on two meshes are refused, plain ones stay "
    "local") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    CHECK(found({}) == 0);
    const MeshLayout* other = mesh.layout()->arena().layout({{2}, {"other"}, {}});
    rank.meshes->construct(other);
    const DTensor a = mesh.place("R", {2}, {1, 2});
    const DTensor b = from_local(plain({2}, {1, 2}), other, {Placement::replicate()});
    CHECK(kind_of([&] { found({a, b}); }) == ErrorKind::kRuntime);
    CHECK(kind_of([&] { found({a, plain({2}, {1, 2})}); }) == ErrorKind::kRuntime);
    const double mine = rank.rank == 0 ? kInfinity : 1;
    CHECK(found({plain({1}, {mine})}) == (rank.rank == 0 ? 1 : 0));
  });
}

TEST_CASE("D-64 outside the mesh the flag is left as it was") {
  OpMesh mesh({2}, {1, 2}, 3);
  mesh.run([&](RankContext& rank) {
    const DTensor a = mesh.place("S(0)", {2}, {1, kInfinity});
    CHECK(found({a}) == (rank.rank == 0 ? 0 : 1));
  });
}

TEST_CASE("K-23 X-37 reading a replica communicates nothing, a pending sum is reduced once") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor whole_value = mesh.place("R", {1}, {3}), pending = mesh.place("P(sum)", {}, {4});
    const Seen seen;
    CHECK(ops()("aten::_local_scalar_dense", {whole_value})[0].to_double() == 3);
    CHECK(seen.collectives.empty());
    CHECK(ops()("aten::_local_scalar_dense", {pending})[0].to_double() == 4);
    CHECK(seen.collectives.size() == 1);
  });
}

TEST_CASE("an op with a handler is told of as the op it is, and what it does as part of it") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {2}, {1, 2}), pending = mesh.place("P(sum)", {}, {4});
    const Seen seen;
    ops()("aten::equal", {x, x});
    ops()("aten::_local_scalar_dense", {pending});
    ops()("aten::is_same_size", {x, x});
    ops()(kUnscale, {ArgumentList{x}, plain({1}, {0}), plain({1}, {0.5})});
    ops()("aten::equal", {plain({1}, {0}), plain({1}, {0})});  // no mesh takes part
    const std::vector<std::string> expected = {"aten::equal", "aten::_local_scalar_dense",
                                               "aten::is_same_size", kUnscale};
    CHECK(seen.ops == expected);
  });
}

TEST_CASE("an op with a user's handler is told of, and the ops that the handler calls inside") {
  OpRegistry registry;
  register_all_ops(registry);
  registry.set_handler("aten::neg", {squared});
  OpMesh mesh(registry, {3});
  mesh.run([&](RankContext&) {
    const Seen seen;
    const DTensor y = ops().one("aten::neg", {mesh.place("S(0)", {2}, {3, 4})});
    CHECK(whole(y) == Values{9, 16});
    CHECK(seen.ops == std::vector<std::string>{"aten::neg", " aten::mul.Tensor"});
  });
}

}  // namespace
}  // namespace shardlab
