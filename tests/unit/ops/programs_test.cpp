// Values of ops that are programs over other ops, as PyTorch 2.15 gives them, on cut tensors.
#include <doctest/doctest.h>

#include "dispatch/dispatcher.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::counted;
using test::OpMesh;
using test::ops;
using test::whole;
using Values = std::vector<double>;

TEST_CASE("meshgrid by xy has the second tensor down, the first across") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const ArgumentList lines{mesh.place("S(0)", {3}, {1, 2, 3}), mesh.place("R", {2}, {7, 8})};
    const Results grids = ops()("aten::meshgrid.indexing", {lines, "xy"});
    const ArgumentList& both = grids[0].list();
    CHECK(both[0].tensor().shape() == Dims{2, 3});
    CHECK(whole(both[0].tensor()) == Values{1, 2, 3, 1, 2, 3});
    CHECK(whole(both[1].tensor()) == Values{7, 7, 7, 8, 8, 8});
  });
}

TEST_CASE("a number of pieces cuts into nearly equal ones, a list cuts at positions") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {5}, counted(5));
    const Results pieces = ops()("aten::tensor_split.sections", {x, 3, 0});
    REQUIRE(pieces[0].list().size() == 3);
    CHECK(whole(pieces[0].list()[0].tensor()) == Values{0, 1});
    CHECK(whole(pieces[0].list()[2].tensor()) == Values{4});
    const Results parts = ops()("aten::tensor_split.indices", {x, Dims{1, 9, -1}, 0});
    REQUIRE(parts[0].list().size() == 4);
    CHECK(whole(parts[0].list()[1].tensor()) == Values{1, 2, 3, 4});
    CHECK(whole(parts[0].list()[2].tensor()).empty());
    CHECK(whole(parts[0].list()[3].tensor()) == Values{4});
  });
}

TEST_CASE("labels in front of the first -1 are the targets of a sample") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor scores = mesh.place("S(0)", {2, 4}, {0.1, 0.2, 0.4, 0.8, 1, 0, 0, 0});
    const DTensor labels = mesh.place("S(0)", {2, 4}, {3, 0, -1, 1, -1, 2, 2, 2}, DType::kI64);
    const Results loss = ops()("aten::multilabel_margin_loss_forward", {scores, labels, 0});
    CHECK(whole(loss[0].tensor())[0] == doctest::Approx(0.85));
    CHECK(whole(loss[0].tensor())[1] == 0);
    CHECK(whole(loss[1].tensor()) == Values{1, 0, 0, 1, 0, 0, 0, 0});
  });
}

TEST_CASE("a number beside a tensor counts for the dtype only in a higher category") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor condition = mesh.place("S(0)", {2}, {1, 0}, DType::kBool);
    const DTensor whole_numbers = mesh.place("S(0)", {2}, {3, 4}, DType::kI64);
    const DTensor real = ops().one("aten::where.ScalarSelf", {condition, 1.5, whole_numbers});
    CHECK(real.dtype() == DType::kF32);
    CHECK(whole(real) == Values{1.5, 4});
    const DTensor half = mesh.place("S(0)", {2}, {3, 4}, DType::kBF16);
    CHECK(ops().one("aten::where.ScalarOther", {condition, half, 1.5}).dtype() == DType::kBF16);
    CHECK(ops().one("aten::where.Scalar", {condition, 1, 2}).dtype() == DType::kI64);
  });
}

TEST_CASE("values that an index sends to one place are reduced, with what lies there or without") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor self = mesh.place("S(0)", {2, 3}, {1, 2, 3, 4, 5, 6});
    const DTensor index = mesh.place("R", {3}, {0, 2, 0}, DType::kI64);
    const DTensor source = mesh.place("S(0)", {2, 3}, {9, 8, 7, 1, 2, 3});
    const auto reduced = [&](const char* how, bool with_self) {
      return whole(ops().one("aten::index_reduce", {self, 1, index, source, how, with_self}));
    };
    CHECK(reduced("amax", true) == Values{9, 2, 8, 4, 5, 6});
    CHECK(reduced("amin", false) == Values{7, 2, 8, 1, 5, 2});
    CHECK(reduced("prod", true) == Values{63, 2, 24, 12, 5, 12});
    CHECK(reduced("mean", false) == Values{8, 2, 8, 2, 5, 2});
  });
}

TEST_CASE("a reflected pad does not repeat the edge, a replicated one does nothing else") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(1)", {1, 4}, {1, 2, 3, 4});
    CHECK(whole(ops().one("aten::reflection_pad1d", {x, Dims{2, 1}})) ==
          Values{3, 2, 1, 2, 3, 4, 3});
    CHECK(whole(ops().one("aten::reflection_pad1d", {x, Dims{-1, 2}})) == Values{2, 3, 4, 3, 2});
    CHECK(whole(ops().one("aten::replication_pad1d", {x, Dims{1, -2}})) == Values{1, 1, 2});
  });
}

TEST_CASE("places of what is not 0, one list for each dim") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3, 2}, {0, 5, 0, 0, 7, 1});
    const Results places = ops()("aten::nonzero_numpy", {x});
    CHECK(whole(places[0].list()[0].tensor()) == Values{0, 2, 2});
    CHECK(whole(places[0].list()[1].tensor()) == Values{1, 0, 1});
  });
}

}  // namespace
}  // namespace shardlab
