// Sums along the tape, and placements of gradients of redistributions.
#include <doctest/doctest.h>

#include "tests/unit/dispatch/op_calls.h"

namespace shardlab {
namespace {

using test::OpMesh;
using test::ops;
using test::plain;
using test::sum;
using test::times;
using test::whole;
using Values = std::vector<double>;

DTensor add(const DTensor& a, const DTensor& b) { return ops().one("aten::add.Tensor", {a, b}); }

TEST_CASE("V-19 a leaf that is used twice has the sum, and a second backward adds to it") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {5}, {1, 2, 3, -1, -2});
    require_grad(x);
    backward(sum(add(times(x, x), times(x, 3))));
    CHECK(whole(grad_of(x)) == Values{5, 7, 9, 1, -1});
    backward(sum(times(x, 10)));
    CHECK(whole(grad_of(x)) == Values{15, 17, 19, 11, 9});
  });
}

TEST_CASE(
    "V-19 a gradient that the program holds has what a second backward adds, on any placements") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {5}, {1, 2, 3, -1, -2});
    const DTensor y = mesh.place("S(0)", {5}, {1, 2, 3, -1, -2});
    for (const DTensor& leaf : {x, y}) require_grad(leaf);
    backward(sum(times(x, x)));  // a cut gradient, then a whole one
    const DTensor cut = grad_of(x);
    backward(sum(times(x, 10)));
    CHECK(whole(cut) == Values{12, 14, 16, 8, 6});
    CHECK(cut.spec()->placements() == Placements{Placement::shard(0)});
    backward(sum(times(y, 10)));  // the other way round
    const DTensor replicated = grad_of(y);
    backward(sum(times(y, y)));
    CHECK(whole(replicated) == Values{12, 14, 16, 8, 6});
    CHECK(replicated.spec()->is_replicated());
  });
}

TEST_CASE("V-19 a result waits for all that it went into, near and far from the loss") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {5}, {1, 2, 3, -1, -2});
    require_grad(x);
    const DTensor square = times(x, x);
    const DTensor far = times(times(times(square, 2), 2), 2);
    const std::vector<DTensor> both = gradients(sum(add(far, times(square, 3))), {x, square});
    CHECK(whole(both[0]) == Values{22, 44, 66, -22, -44});
    CHECK(whole(both[1]) == Values{11, 11, 11, 11, 11});
  });
}

TEST_CASE("V-19 each of several results has its own gradient") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {5, 2}, test::counted(10));
    require_grad(x);
    const Results halves = ops()("aten::unbind.int", {x, 1});
    const DTensor first = halves[0].list()[0].tensor(), second = halves[0].list()[1].tensor();
    backward(sum(add(times(first, 2), times(second, second))));
    CHECK(whole(grad_of(x)) == Values{2, 2, 2, 6, 2, 10, 2, 14, 2, 18});
  });
}

TEST_CASE("V-19 a pending loss counts once, not once for each rank") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {5}, {1, 2, 3, 4, 5});
    require_grad(x);
    const DTensor loss = sum(x);
    CHECK(loss.spec()->has_partial());
    backward(loss);
    CHECK(whole(grad_of(x)) == Values{1, 1, 1, 1, 1});
  });
}

TEST_CASE("V-20 the gradient of a redistribution has the shard order of its input") {
  OpMesh mesh({2, 2});
  mesh.run([&](RankContext&) {
    const DTensor placed = mesh.place("S(0) S(0)", {5}, {1, 2, 3, 4, 5});
    const DTensor x =
        redistribute(placed, placed.spec()->with(placed.spec()->placements(), ShardOrder{1, 0}));
    require_grad(x);
    const DTensor all = redistribute(x, x.spec()->with(Placements(2)));
    backward(sum(times(all, all)));
    CHECK(grad_of(x).spec() == x.spec());
    CHECK(whole(grad_of(x)) == Values{2, 4, 6, 8, 10});
  });
}

TEST_CASE("V-20 the gradient of what was pending is whole, here and in a plain tensor") {
  OpMesh mesh({3});
  mesh.run([&](RankContext& rank) {
    const DTensor terms = mesh.place("P(sum)", {4}, {1, 2, 3, 4});
    require_grad(terms);
    const DTensor rows = redistribute(terms, terms.spec()->with({Placement::shard(0)}));
    backward(sum(times(rows, rows)));
    CHECK(grad_of(terms).spec()->is_replicated());
    CHECK(whole(grad_of(terms)) == Values{2, 4, 6, 8});

    const DTensor term = plain({2}, {static_cast<double>(rank.rank), 1});
    require_grad(term);
    const DTensor joined = from_local(term, mesh.layout(), {Placement::partial(ReduceOp::kSum)});
    const DTensor value = redistribute(joined, joined.spec()->with({Placement::replicate()}));
    backward(sum(times(value, value)));
    CHECK(whole(grad_of(term)) == Values{6, 6});
  });
}

}  // namespace
}  // namespace shardlab
