// Gradients that are recorded (Graph::kCreate), on cut tensors; expected values are derivatives of
// polynomials, counted by hand.
#include <doctest/doctest.h>

#include "autograd/hooks.h"
#include "autograd/tape.h"
#include "tests/unit/dispatch/op_calls.h"

namespace shardlab {
namespace {

using test::call;
using test::kind_of;
using test::OpMesh;
using test::ops;
using test::rows;
using test::sum;
using test::times;
using test::whole;
using Values = std::vector<double>;

DTensor gradient(const DTensor& loss, const DTensor& x, Graph graph = Graph::kCreate) {
  return gradients(loss, {x}, {}, graph).at(0);
}

TEST_CASE("V-19 a gradient that is recorded has a gradient, and that one has another") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4}, {1, 2, -1, 3});
    require_grad(x);
    const DTensor y = sum(times(times(x, x), times(x, x)));  // x^4
    const DTensor first = gradient(y, x), second = gradient(sum(first), x);
    CHECK(whole(first) == Values{4, 32, -4, 108});
    CHECK(whole(second) == Values{12, 48, 12, 108});
    CHECK(whole(gradient(sum(second), x)) == Values{24, 48, -24, 72});
    backward(sum(times(first, first)));
    CHECK(whole(grad_of(x)) == Values{96, 3072, -96, 23328});  // 16 x^6
  });
}

TEST_CASE("V-19 a gradient depends on what flows in, and leaves keep none of it") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("R", {3}, {1, 2, 3}), seed = mesh.place("S(0)", {3}, {5, 6, 7});
    require_grad(x);
    require_grad(seed);
    const DTensor square = times(x, x);
    const DTensor first = gradients(square, {x}, seed, Graph::kCreate).at(0);
    CHECK(whole(first) == Values{10, 24, 42});
    CHECK_FALSE(grad_of(x).defined());
    backward(sum(first));
    CHECK(whole(grad_of(seed)) == Values{2, 4, 6});
    CHECK(whole(grad_of(x)) == Values{10, 12, 14});
    CHECK_FALSE(gradient(sum(square), x, Graph::kRetain).requires_grad());
    CHECK(kind_of([&] { backward(sum(square), {}, Graph::kCreate); }) == ErrorKind::kUnsupported);
  });
}

TEST_CASE("V-19 second gradients pass redistributions, local pieces, writes to views and parts") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4}, {1, 2, -1, 3});
    require_grad(x);
    const DTensor whole_x = redistribute(x, mesh.spec("R", {4}));
    const DTensor local = to_local(times(whole_x, times(x, x)));
    const DTensor again = from_local(local, mesh.layout(), x.spec()->placements());
    const DTensor first = gradient(sum(again), x);
    CHECK(whole(first) == Values{3, 12, 3, 27});
    CHECK(whole(gradient(sum(first), x)) == Values{6, 12, -6, 18});

    // The middle of y becomes its cube.
    const DTensor y = times(x, 1);
    const DTensor part = rows(y, 1, 3);
    const DTensor before = call("aten::clone", {part});
    ops()("aten::mul_.Tensor", {part, times(before, before)});
    const DTensor written = gradient(sum(y), x);
    CHECK(whole(written) == Values{1, 12, 3, 1});
    CHECK(whole(gradient(sum(written), x)) == Values{0, 12, -6, 0});
  });
}

TEST_CASE("V-19 hooks of a gradient that is recorded are recorded with it") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    require_grad(x);
    const DTensor square = times(x, x);
    register_hook(square, [&](const DTensor& g) { return times(g, times(square, 1)); });
    const DTensor first = gradient(sum(square), x);  // 2 x^3
    CHECK(whole(first) == Values{2, 16, 54});
    // 2 x^2 through the hook, and 4 x^2 through the square, whose gradient passes it once more.
    CHECK(whole(gradient(sum(first), x, Graph::kFree)) == Values{6, 72, 342});
  });
}

}  // namespace
}  // namespace shardlab
