// Results of a call: outside the mesh, in place, out=, views, wrapping (D-37 to D-55, K-46).
#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "dispatch/prepare.h"
#include "ops/core/meta.h"
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

OutputMetas meta_each(const MetaArgs& args) {
  OutputMetas outputs;
  for (const TensorMeta* meta : args.tensors(0)) outputs.push_back({*meta});
  return outputs;
}
Results double_each(Calls& calls, const OpRow&, const Arguments& args) {
  ArgumentList results;
  for (const Argument& x : args[0].list()) results.push_back(calls("aten::mul_.Scalar", {x, 2})[0]);
  return {Argument(std::move(results))};
}
// One output cut like the input, then a number without spec.
std::vector<RuleRow> value_and_count(const RuleContext&) {
  return {{{RulePlacement::any(0), RulePlacement::none()}, {RulePlacement::any(0)}},
          {{RulePlacement::of(Placement::replicate()), RulePlacement::none()},
           {RulePlacement::of(Placement::replicate())}}};
}
OutputMetas meta_value_and_count(const MetaArgs& args) {
  return {{*args.tensor(0)}, {contiguous_meta(Dims{}, DType::kF32), false}};
}
template <int dims>
Results with_count(Calls& calls, const OpRow&, const Arguments& args) {
  const DTensor count = calls.one("aten::full_like", {calls.one("aten::sum", {args[0]}), 7.0});
  return {calls.one("aten::clone", {args[0]}),
          dims == 0 ? count : calls.one("aten::unsqueeze", {count, 0})};
}
Results one_too_few(Calls& calls, const OpRow&, const Arguments& args) {
  return {calls.one("aten::clone", {args[0]})};
}

const OpRegistry& registry() {
  static const OpRegistry* const made = [] {
    auto* filled = new OpRegistry;
    register_all_ops(*filled);
    OpRow list;
    list.op = parse_op_schema("my::double_each_(Tensor(a!)[] x) -> Tensor(a!)[]");
    list.meta = meta_each;
    list.rule = PointwiseRule{"ss"};
    list.compute = double_each;
    list.flags = kIndependentLists;
    filled->add(std::move(list));
    OpRow pair;
    pair.op = parse_op_schema("my::pair(Tensor x) -> (Tensor, Tensor)");
    pair.meta = meta_value_and_count;
    pair.rule = DimRuleFn{value_and_count};
    pair.compute = with_count<0>;
    filled->add(pair);
    pair.op = parse_op_schema("my::pair.long(Tensor x) -> (Tensor, Tensor)");
    pair.compute = with_count<1>;
    filled->add(pair);
    pair.op = parse_op_schema("my::pair.short(Tensor x) -> (Tensor, Tensor)");
    pair.compute = one_too_few;
    filled->add(std::move(pair));
    return filled;
  }();
  return *made;
}

TEST_CASE(
    "D-37 D-38 D-40 X-30 outside the mesh: zero or empty, of the spec's dtype, on the rank's "
    "device") {
  OpMesh mesh({2}, {1, 2}, 3);
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {4, 2}, counted(8), DType::kF64);
    require_grad(x);
    const DTensor y = ops().one("aten::exp", {x});
    if (rank.rank != 0) return;
    CHECK(y.local().shape() == Dims{0});
    CHECK(y.local().dtype() == DType::kF64);
    CHECK(y.local().device() == rank.device);
    const Tensor scalar = outsider_value(*mesh.spec("R", {}, DType::kI64));
    CHECK(scalar.dim() == 0);
    CHECK(read_integers(scalar) == std::vector<std::int64_t>{0});
  });
}

TEST_CASE("D-43 D-55 plain answers come back as they are, without communication") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {4}, counted(4)),
                  b = mesh.place("P(sum)", {4}, counted(4));
    const DTensor r = mesh.place("R", {}, {5});
    const Seen seen;
    CHECK(ops()("aten::is_same_size", {a, b})[0].to_bool());
    CHECK(ops()("aten::_local_scalar_dense", {r})[0].to_double() == 5);
    CHECK(seen.collectives.empty());
  });
}

TEST_CASE("D-46 X-13 an in-place write whose target would have to move is refused, not lost") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("P(max)", {4}, counted(4)), y = mesh.place("R", {4}, counted(4));
    CHECK(kind_of([&] { ops()("aten::mul_.Tensor", {x, y}); }) == ErrorKind::kRuntime);
    CHECK(whole(x) == counted(4));
  });
}

TEST_CASE("D-47 an in-place op over a list returns the list's own handles") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {3}, {1, 2, 3}), b = mesh.place("R", {2}, {4, 5});
    const Results results = ops()("my::double_each_", {ArgumentList{a, b}});
    REQUIRE(results[0].is_list());
    CHECK(results[0].list()[0].tensor().is_same(a));
    CHECK(results[0].list()[1].tensor().is_same(b));
    CHECK(whole(a) == Values{2, 4, 6});
    CHECK(whole(b) == Values{8, 10});
  });
}

TEST_CASE("D-44 an in-place op without returns gives none") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {3}, {1, 2, 3});
    CHECK(ops()("aten::_foreach_add_.Scalar", {ArgumentList{a}, 1}).empty());
    CHECK(whole(a) == Values{2, 3, 4});
  });
}

TEST_CASE("D-48 D-49 several out tensors are written and returned in the order they are declared") {
  OpMesh mesh({2}, {1, 2}, 3);
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {3, 2}, {5, 1, 2, 8, 4, 4});
    const DTensor values = mesh.place("S(0)", {3}, Values(3, 0));
    const DTensor places = mesh.place("S(0)", {3}, Values(3, 0), DType::kI64);
    const Results results = ops()("aten::max.dim_max", {x, 1, false, values, places});
    REQUIRE(results.size() == 2);
    CHECK(results[0].tensor().is_same(values));
    CHECK(results[1].tensor().is_same(places));
    CHECK(places.spec()->placement(0) == Placement::shard(0));
    CHECK(values.shape() == Dims{3});
    if (rank.rank == 0) return;
    CHECK(whole(values) == Values{5, 8, 4});
    CHECK(whole(places) == Values{0, 1, 0});
  });
}

TEST_CASE("D-50 K-46 a view shares its base's memory, however often it is viewed") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4, 2}, counted(8));
    const DTensor t = ops().one("aten::transpose.int", {x, 0, 1});
    const DTensor v = ops().one("aten::unsqueeze", {t, 0});
    CHECK(t.local().storage() == x.local().storage());
    CHECK(v.local().storage() == x.local().storage());
    ops()("aten::add_.Scalar", {v, 10});
    CHECK(whole(x) == Values{10, 11, 12, 13, 14, 15, 16, 17});
    const DTensor copy = ops().one("aten::clone", {x});
    CHECK_FALSE(copy.local().storage() == x.local().storage());
    const Results halves = ops()("aten::split.Tensor", {t, 1, 0});
    CHECK(halves[0].list()[1].tensor().local().storage() == x.local().storage());
  });
}

TEST_CASE("D-50 outside the mesh a view is a piece like any other") {
  OpMesh mesh({2}, {1, 2}, 3);
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {4, 2}, counted(8));
    const DTensor t = ops().one("aten::t", {x});
    CHECK(t.shape() == Dims{2, 4});
    if (rank.rank == 0) CHECK(t.local().shape() == Dims{0});
  });
}

TEST_CASE("D-45 D-51 K-46 a view in place is in place first: the handle stays, with the new spec") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(1)", {1, 4, 2}, counted(8));
    const DTensor base = ops().one("aten::alias", {x});
    CHECK(ops().one("aten::squeeze_.dim", {x, 0}).is_same(x));
    CHECK(x.spec() == mesh.spec("S(0)", {4, 2}));
    CHECK(base.shape() == Dims{1, 4, 2});
    CHECK(x.local().storage() == base.local().storage());
    CHECK(whole(x) == counted(8));
    const DTensor y = mesh.place("S(0)", {4}, counted(4));
    const DTensorSpec* spec = y.spec();
    ops()("aten::mul_.Scalar", {y, 2});
    CHECK(y.spec() == spec);
  });
}

TEST_CASE("D-52 O-4 a result is wrapped with its spec; metadata and program have to agree") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    const Results results = ops()("my::pair", {x});
    CHECK(results[0].tensor().spec() == x.spec());
    CHECK_FALSE(results[0].tensor().requires_grad());
    CHECK(kind_of([&] { ops()("my::pair.short", {x}); }) == ErrorKind::kInternal);
  });
}

TEST_CASE("D-53 a result without spec has no dims and comes back plain") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    const Results results = ops()("my::pair", {x});
    REQUIRE(results[1].is_tensor());
    CHECK_FALSE(results[1].tensor().distributed());
    CHECK(read_doubles(results[1].tensor().local()) == Values{7});
    CHECK(kind_of([&] { ops()("my::pair.long", {x}); }) == ErrorKind::kInternal);
  });
}

TEST_CASE("D-54 X-14 lists of results keep their kind and length, absent results are none") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4, 5}, counted(20));
    const Results pieces = ops()("aten::split.Tensor", {x, 2, 1});
    REQUIRE(pieces.size() == 1);
    REQUIRE(pieces[0].is_list());
    REQUIRE(pieces[0].list().size() == 3);
    CHECK(pieces[0].list()[2].tensor().shape() == Dims{4, 1});
    const DTensor mean = mesh.place("S(0)", {4, 1}, counted(4));
    const Results grads = ops()(
        "aten::native_layer_norm_backward",
        {x, x, Dims{5}, mean, mean, Argument(), Argument(), ArgumentList{true, false, false}});
    REQUIRE(grads.size() == 3);
    CHECK(grads[0].is_tensor());
    CHECK(grads[1].is_none());
  });
}

}  // namespace
}  // namespace shardlab
