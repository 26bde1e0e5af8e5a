// Views and in-place ops on the tape. Expected values are those of PyTorch 2.15 on one device; each
// case runs with the tensor whole, cut unevenly and with empty pieces.
#include <doctest/doctest.h>

#include "autograd/tape.h"
#include "tests/unit/dispatch/op_calls.h"

namespace shardlab {
namespace {

using namespace test;
using Values = std::vector<double>;

DTensor row(const DTensor& x, std::int64_t at) { return call("aten::select.int", {x, 0, at}); }
DTensor turned(const DTensor& x) { return call("aten::t", {x}); }
void scale(const DTensor& x, double factor) { ops()("aten::mul_.Scalar", {x, factor}); }

/// 5 x 3 on 4 ranks: rows 2, 2, 1, 0; columns 1, 1, 1, 0. The last one cuts twice.
const char* const kPlacements[] = {"R R", "S(0) R", "R S(1)", "S(1) S(0)", "S(0) S(0)"};

/// Runs `body` with a leaf that holds 0, 1, ..., 14 for each way of placing it.
template <typename Body>
void on_each(const Body& body, bool requires_grad = true) {
  for (const char* placements : kPlacements) {
    CAPTURE(placements);
    OpMesh mesh({4, 2});
    mesh.run([&](RankContext&) {
      const DTensor a = mesh.place(placements, {5, 3}, counted(15));
      if (requires_grad) require_grad(a);
      body(mesh, a, placements);
    });
  }
}

DTensor weights(OpMesh& mesh, const char* placements) {
  Values values = counted(15);
  for (double& value : values) value += 1;
  return mesh.place(placements, {5, 3}, values);
}

TEST_CASE("a write to a part of a tensor is a step of the tensor's own history") {
  on_each([](OpMesh& mesh, const DTensor& a, const char* placements) {
    const DTensor y = times(a, a);
    scale(rows(y, 1, 4), 3);
    backward(sum(times(y, weights(mesh, placements))));
    CHECK(whole(grad_of(a)) ==
          Values{0, 4, 12, 72, 120, 180, 252, 336, 432, 540, 660, 792, 312, 364, 420});
  });
}

TEST_CASE("a write to a transposed tensor reaches the gradient of the tensor") {
  on_each([](OpMesh&, const DTensor& a, const char*) {
    const DTensor y = times(a, 1.0);
    scale(turned(y), 3);
    backward(sum(y));
    CHECK(whole(grad_of(a)) == Values(15, 3.0));
  });
}

TEST_CASE("a view that was taken before its base was written to shows the write and its gradient") {
  on_each([](OpMesh&, const DTensor& a, const char*) {
    const DTensor y = times(a, 1.0);
    const DTensor v = rows(y, 1, 3);
    scale(y, 3);
    CHECK(whole(call("aten::clone", {v})) == Values{9, 12, 15, 18, 21, 24});
    backward(sum(times(v, v)));
    CHECK(whole(grad_of(a)) == Values{0, 0, 0, 54, 72, 90, 108, 126, 144, 0, 0, 0, 0, 0, 0});
  });
}

TEST_CASE("a view of a view is a view of the base: what is overwritten has no gradient") {
  on_each([](OpMesh& mesh, const DTensor& a, const char*) {
    const DTensor y = times(a, 1.0);
    const DTensor v = row(turned(y), 1);
    ops()("aten::copy_", {v, mesh.place("R R", {5}, {1, 2, 3, 4, 5})});
    backward(sum(times(y, y)));
    CHECK(whole(grad_of(a)) == Values{0, 0, 4, 6, 0, 10, 12, 0, 16, 18, 0, 22, 24, 0, 28});
  });
}

TEST_CASE("a tensor without gradient gets one from what is copied into a part of it") {
  for (const char* placements : kPlacements) {
    CAPTURE(placements);
    OpMesh mesh({4, 2});
    mesh.run([&](RankContext&) {
      const DTensor b = mesh.place(placements, {2, 3}, counted(6));
      require_grad(b);
      const DTensor cache = mesh.place(placements, {5, 3}, Values(15, 0.0));
      ops()("aten::copy_", {rows(cache, 3, 5), b});
      CHECK(cache.requires_grad());
      CHECK(whole(cache) == Values{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5});
      backward(sum(times(cache, weights(mesh, placements))));
      CHECK(whole(grad_of(b)) == Values{10, 11, 12, 13, 14, 15});
    });
  }
}

TEST_CASE("numbers and other parts are written into parts") {
  on_each([](OpMesh&, const DTensor& a, const char*) {
    const DTensor y = times(a, 1.0);
    ops()("aten::fill_.Scalar", {row(y, 2), 7.0});
    ops()("aten::sub_.Tensor", {rows(y, 0, 2), rows(a, 3, 5)});
    CHECK(whole(y) == Values{-9, -9, -9, -9, -9, -9, 7, 7, 7, 9, 10, 11, 12, 13, 14});
    backward(sum(times(y, y)));
    CHECK(whole(grad_of(a)) ==
          Values{-18, -18, -18, -18, -18, -18, 0, 0, 0, 36, 38, 40, 42, 44, 46});
  });
}

TEST_CASE("X-47 writes reach every holder of a cut dim, without gradients as well") {
  on_each(
      [](OpMesh&, const DTensor& y, const char*) {
        const DTensor v = rows(y, 3, 5);
        ops()("aten::fill_.Scalar", {row(y, 0), 5.0});
        ops()("aten::zero_", {rows(y, 1, 3)});
        scale(row(v, 0), 2);
        CHECK(whole(y) == Values{5, 5, 5, 0, 0, 0, 0, 0, 0, 18, 20, 22, 12, 13, 14});
        CHECK(whole(call("aten::clone", {v})) == Values{18, 20, 22, 12, 13, 14});
      },
      false);
}

TEST_CASE("a write to a view of integers and of bools") {
  for (const char* placements : kPlacements) {
    CAPTURE(placements);
    OpMesh mesh({4, 2});
    mesh.run([&](RankContext&) {
      const DTensor i = mesh.place(placements, {5, 3}, counted(15), DType::kI64);
      ops()("aten::mul_.Scalar", {rows(i, 1, 3), 2});
      CHECK(whole(i) == Values{0, 1, 2, 6, 8, 10, 12, 14, 16, 9, 10, 11, 12, 13, 14});
      const DTensor b = mesh.place(placements, {5, 3}, Values(15, 1.0), DType::kBool);
      ops()("aten::zero_", {rows(b, 4, 5)});
      CHECK(whole(b) == Values{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0});
    });
  }
}

TEST_CASE("D-46 X-13 a part of a pending sum keeps what it pends on") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor y = mesh.place("P(sum)", {3, 2}, counted(6));
    scale(rows(y, 1, 3), 3);
    CHECK(y.spec()->placement(0).is_partial());
    CHECK(whole(y) == Values{0, 1, 6, 9, 12, 15});
  });
}

TEST_CASE("detach shares memory and leaves the tape") {
  on_each([](OpMesh&, const DTensor& a, const char*) {
    const DTensor y = times(a, 1.0);
    const DTensor d = detach(y);
    CHECK_FALSE(d.requires_grad());
    CHECK(is_leaf(d));
    ops()("aten::add_.Scalar", {d, 1.0});
    CHECK(whole(y)[14] == 15);
    const DTensor part = detach(rows(y, 4, 5));
    scale(part, 2);
    CHECK(whole(y)[14] == 30);
    // An optimizer does it so.
    ops()("aten::sub_.Tensor", {detach(a), a});
    CHECK(whole(a) == Values(15, 0.0));
    CHECK(a.requires_grad());
    CHECK(kind_of([&] { detach_in_place(rows(y, 0, 1)); }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("a view that a write cannot be followed through is not written to") {
  on_each([](OpMesh&, const DTensor& a, const char* placements) {
    const auto refused = [&](const DTensor& x) {
      return kind_of([&] { scale(x, 2); }) == ErrorKind::kRuntime;
    };
    CHECK(refused(a));
    CHECK(refused(rows(a, 0, 2)));
    CHECK(refused(row(turned(a), 0)));
    const DTensor y = times(a, 1.0);
    const Results pieces = ops()("aten::split.Tensor", {y, 2, 1});
    CHECK(refused(pieces[0].list()[0].tensor()));
    CHECK(refused(rows(pieces[0].list()[1].tensor(), 0, 1)));
    CHECK(whole(a) == counted(15));
    if (std::string_view(placements).find("S(1)") != std::string_view::npos) return;
    const DTensor column = ops()("aten::unbind.int", {y, 1})[0].list()[2].tensor();
    CHECK(refused(column));
    // Nor can it follow its base.
    scale(y, 2);
    CHECK(kind_of([&] { times(column, 1.0); }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("an expanded tensor is not written to, its rows are") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("R", {1, 3}, {0, 1, 2});
    const DTensor wide = call("aten::expand", {x, Dims{4, 3}});
    CHECK(kind_of([&] { scale(wide, 2); }) == ErrorKind::kRuntime);
    CHECK(kind_of([&] { ops()("aten::zero_", {wide}); }) == ErrorKind::kRuntime);
    scale(row(wide, 2), 2);
    CHECK(whole(x) == Values{0, 2, 4});
  });
}

TEST_CASE("a view that was made while nothing was recorded is not written to on the tape") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const DTensor a = mesh.place("S(0)", {3, 2}, counted(6));
    require_grad(a);
    const DTensor y = times(a, 1.0);
    rank.mode &= ~static_cast<std::uint32_t>(kModeAutograd);
    const DTensor v = row(turned(y), 0);
    scale(v, 2);
    rank.mode |= kModeAutograd;
    CHECK(whole(y) == Values{0, 1, 4, 3, 8, 5});
    CHECK(kind_of([&] { scale(v, 2); }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("X-47 the local tensor of a recorded one, or of a gathered copy, is not written to") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {3, 2}, counted(6));
    const DTensor gathered = to_local(rows(a, 0, 2));
    CHECK(kind_of([&] { scale(gathered, 2); }) == ErrorKind::kRuntime);
    scale(to_local(a), 2);
    CHECK(whole(a) == Values{0, 2, 4, 6, 8, 10});
    require_grad(a);
    const DTensor local = to_local(times(a, 1.0));
    CHECK(kind_of([&] { scale(local, 2); }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("R-47 X-48 a redistribution that moves nothing shares memory and history") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {3, 2}, counted(6));
    require_grad(a);
    const DTensor y = times(a, 1.0);
    scale(redistribute(y, y.spec()), 2);
    backward(sum(y));
    CHECK(whole(grad_of(a)) == Values(6, 2.0));
  });
}

}  // namespace
}  // namespace shardlab
