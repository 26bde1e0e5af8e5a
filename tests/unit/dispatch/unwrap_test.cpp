// From handles to specs (D-9 to D-17).
#include "dispatch/unwrap.h"

#include <doctest/doctest.h>

#include "propagate/propagator.h"
#include "schema/binder.h"
#include "schema/op_registry.h"
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

Unwrapped unwrapped(const char* op, Arguments positional) {
  const OpRow& row = ops().find(op);
  return unwrap(row, bind_arguments(row, std::move(positional)));
}

TEST_CASE("D-9 D-10 O-47 specs stand for tensors in the schema, handles beside them, values stay") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4, 2}, counted(8));
    const DTensor number = plain({}, {3});
    const Unwrapped call = unwrapped("aten::add.Tensor", {x, number});
    REQUIRE(call.slots.size() == 2);
    CHECK(call.slots[0].handle.is_same(x));
    CHECK(call.slots[1].handle.is_same(number));
    CHECK(call.schema.args[0].spec() == x.spec());
    CHECK(call.schema.args[1].spec() == mesh.spec("R", {}));
    CHECK(call.schema.args[2].to_int() == 1);
    CHECK(call.distributed);
  });
}

TEST_CASE(
    "D-9 D-15 D-16 a list of tensors keeps its place in the schema, its elements are looked into") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {4}, counted(4)), b = mesh.place("R", {4}, counted(4));
    const Unwrapped call = unwrapped("aten::cat", {ArgumentList{a, b}, 0});
    REQUIRE(call.schema.args[0].is_list());
    CHECK(call.schema.args[0].list()[1].spec() == b.spec());
    REQUIRE(call.slots.size() == 2);
    CHECK(call.slots[1].handle.is_same(b));
    CHECK(call.slots[1].argument == 0);
    CHECK(call.schema.args[1].to_int() == 0);
  });
}

TEST_CASE("D-15 a list of DTensors is refused where the op has no tree handling") {
  OpRegistry registry;
  OpRow row;
  row.op = parse_op_schema("demo::joined(Tensor first, Tensor[] rest) -> Tensor");
  row.info.static_argnum = 1;
  const OpRow& opaque = registry.add(std::move(row));
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {4}, counted(4));
    CHECK(unwrap(opaque, {a, ArgumentList{plain({}, {1})}}).slots.size() == 2);
    try {
      unwrap(opaque, {a, ArgumentList{a, a}});
      FAIL("the list was taken");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kInternal);
      CHECK(error.summary().find("demo::joined: argument 1, rest,") != std::string::npos);
      CHECK(error.find("fix") != nullptr);
    }
  });
}

TEST_CASE("D-11 the first DTensor's mesh is the call's") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {2}, {1, 2});
    CHECK(unwrapped("aten::add.Tensor", {x, x}).schema.layout == mesh.layout());
  });
}

TEST_CASE(
    "D-12 a plain tensor in front takes the mesh of the first DTensor behind it, in lists too") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4}, counted(4)), one = plain({}, {1});
    CHECK(unwrapped("aten::add.Tensor", {one, x}).schema.args[0].spec() == mesh.spec("R", {}));
    const DTensor first = plain({1}, {1});
    const Unwrapped joined = unwrapped("aten::cat", {ArgumentList{first, x}});
    CHECK(joined.slots[0].spec == mesh.spec("R", {1}));
  });
}

TEST_CASE("D-12 D-14 without any DTensor there is no mesh, and the call is plain") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const Unwrapped call = unwrapped("aten::neg", {plain({2}, {1, 2})});
    CHECK_FALSE(call.distributed);
    CHECK(call.schema.layout == nullptr);
    CHECK(call.slots[0].spec == nullptr);
  });
}

TEST_CASE(
    "D-13 X-11 keyword tensors are unwrapped like positional ones and give the mesh where no other "
    "does") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor out = mesh.place("S(0)", {1}, {0}), one = plain({}, {1});
    const Unwrapped call = unwrapped("aten::add.out", {one, one, 1, out});
    CHECK(call.schema.layout == mesh.layout());
    REQUIRE(call.slots.size() == 3);
    CHECK(call.slots[0].spec == mesh.spec("R", {}));
    CHECK(call.slots[2].handle.is_same(out));
  });
}

TEST_CASE("D-14 X-11 an op whose only DTensor is a keyword is dispatched") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor out = mesh.place("R", {3}, {0, 0, 0});
    ops()("aten::fill_.Scalar", {out, 2.0});
    ops()("aten::mul.out", {plain({1, 1}, {3}), plain({1, 1}, {2}), out});
    CHECK(out.shape() == Dims{1, 1});
    CHECK(test::whole(out) == std::vector<double>{6});
  });
}

TEST_CASE("D-17 unwrapping moves nothing and leaves the arguments alone") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("P(sum)", {4}, counted(4)),
                  y = mesh.place("S(0)", {4}, counted(4));
    const Seen seen;
    const DTensorSpec* spec = x.spec();
    const std::uint64_t version = x.local().storage()->version();
    unwrapped("aten::mul.Tensor", {x, y});
    CHECK(seen.collectives.empty());
    CHECK(x.spec() == spec);
    CHECK(x.local().storage()->version() == version);
  });
}

}  // namespace
}  // namespace shardlab
