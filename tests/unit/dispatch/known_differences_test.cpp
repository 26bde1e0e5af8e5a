// Proofs on ranks for rows of tests/golden/known_differences.toml: real values under the recorded
// answer, and under ours.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "dispatch/dispatcher.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::counted;
using test::kind_of;
using test::OpMesh;
using test::ops;
using test::plain;
using test::whole;
using Values = std::vector<double>;

TEST_CASE("X-42 an empty list of dims reduces all: no result is cut along a dim it lacks") {
  OpMesh mesh({4});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(1)", {2, 7}, counted(14));
    const DTensor sum = ops().one("aten::sum.dim_IntList", {x, Dims{}});
    CHECK(sum.shape() == Dims{});
    CHECK(whole(sum) == Values{91});
    CHECK(whole(ops().one("aten::amax", {x, Dims{}})) == Values{13});
    CHECK(whole(ops().one("aten::mean.dim", {x, Dims{}})) == Values{6.5});
    const DTensor log = ops().one("aten::logsumexp", {x, Dims{}, true});
    CHECK(log.shape() == Dims{1, 1});
    CHECK(whole(log)[0] == doctest::Approx(13.458674));  // 13 - log(1 - 1 / e)
    // The recorded label has a scalar that is cut along dim 1: there is no such spec.
    const double piece = rank.rank;
    CHECK(kind_of([&] { from_local(plain({}, {piece}), mesh.layout(), {Placement::shard(1)}); }) ==
          ErrorKind::kValue);
  });
}

TEST_CASE("X-50 NaN is left out of a complete sum, and powers are taken of one") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor none = ops().one("aten::sum", {mesh.place("S(0)", {3}, {1, kNan, 3})});
    CHECK(whole(ops().one("aten::nansum", {none})) == Values{0});  // of the terms: 4
    const DTensor six = ops().one("aten::sum", {mesh.place("S(0)", {3}, {1, 2, 3})});
    CHECK(whole(ops().one("aten::linalg__powsum", {six})) == Values{36});  // of the terms: 14
  });
}

TEST_CASE("X-50 the place of NaN is the last, also of a pending minimum") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor least = ops().one("aten::amin", {mesh.place("S(0)", {3}, {1, kNan, 2})});
    const DTensor boundaries = mesh.place("R", {2}, {0, 1.5});
    CHECK(whole(ops().one("aten::bucketize.Tensor", {least, boundaries})) == Values{2});
    // A larger number has no smaller place, and that of NaN is the largest.
    const DTensor most = ops().one("aten::amax", {mesh.place("S(0)", {3}, {1, kNan, 2})});
    const DTensor place = ops().one("aten::bucketize.Tensor", {most, boundaries});
    CHECK(to_string(place.spec()->placements()) == "P(max)");
    CHECK(whole(place) == Values{2});
    const DTensor least_place =
        ops().one("aten::bucketize.Tensor", {mesh.place("P(max)", {3}, {1, -1, 2}), boundaries});
    CHECK(whole(least_place) == Values{1, 0, 2});
  });
}

TEST_CASE("X-50 right sides are not cut beside matrices that have the cut dim") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor matrices = mesh.place("R", {2, 1, 1}, {2, 4});
    const DTensor sides = mesh.place("S(0)", {2, 1, 1}, {8, 8});
    const DTensor x = ops().one("aten::linalg_solve_triangular", {matrices, sides, true});
    CHECK(whole(x) == Values{4, 2});
  });
}

TEST_CASE("special functions of integers are floats, and have fractions") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {2}, {0, 3}, DType::kI64);
    const DTensor y = ops().one("prims::bessel_i0e", {x});
    CHECK(y.dtype() == DType::kF32);
    CHECK(whole(y)[0] == 1);
    CHECK(whole(y)[1] == doctest::Approx(0.2430003541618254));
  });
}

TEST_CASE("a mean over uneven pieces is not averaged, with out= neither") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {6, 10}, counted(60));
    const DTensor out = mesh.place("P(avg)", {}, {0});
    CHECK(kind_of([&] {
            ops()("aten::mean.dtype_out", {x, Argument(), out});
          }) == ErrorKind::kRuntime);
    CHECK(whole(ops().one("aten::mean", {x})) == Values{29.5});
    // The recorded answer: each rank's own mean of 2, 2, 2 and 0 rows, averaged.
    const DTensor own =
        ops().one("aten::mean", {plain(x.local().shape(), read_doubles(x.local()))});
    const DTensor averaged = from_local(own, mesh.layout(), {Placement::partial(ReduceOp::kAvg)});
    CHECK(whole(averaged) != Values{29.5});
  });
}

TEST_CASE("X-13 a number is not filled into the terms of a sum") {
  OpMesh mesh({4});
  mesh.run([&](RankContext& rank) {
    const DTensor sum = mesh.place("P(sum)", {3}, {1, 2, 3});
    CHECK(kind_of([&] { ops()("aten::fill_.Scalar", {sum, 1}); }) == ErrorKind::kRuntime);
    CHECK(whole(sum) == Values{1, 2, 3});
    // The recorded answer: every rank's term becomes 1.
    const DTensor filled =
        from_local(plain({3}, {1, 1, 1}), mesh.layout(), {Placement::partial(ReduceOp::kSum)});
    CHECK(whole(filled) == Values{4, 4, 4});
    CHECK(rank.rank < 4);
    CHECK(whole(ops().one("aten::fill_.Scalar", {sum, 0})) == Values{0, 0, 0});
    const DTensor maximum = mesh.place("P(max)", {3}, {1, 2, 3});
    CHECK(whole(ops().one("aten::fill_.Scalar", {maximum, 5})) == Values{5, 5, 5});
  });
}

TEST_CASE("X-41 a stack reduces what cannot be pending in one tensor") {
  OpMesh mesh({2, 2, 2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0) R P(max)", {4, 3}, counted(12));
    const DTensor y = mesh.place("P(sum) P(sum) R", {4, 3}, Values(12, 7));
    const DTensor stacked = ops().one("aten::stack", {ArgumentList{x, y}, 0});
    Values expected = counted(12);
    expected.insert(expected.end(), 12, 7.0);
    CHECK(whole(stacked) == expected);
  });
  // The recorded label is ambiguous: a sum and a maximum do not commute.
  OpMesh square({2, 2});
  square.run([&](RankContext& rank) {
    const Values terms{1, 2, 3, 0};
    const Values term{terms[static_cast<std::size_t>(rank.rank)]};
    const auto reduced = [&](Placement rows, Placement columns, const Values& value) {
      return whole(from_local(plain({1}, value), square.layout(), {rows, columns}));
    };
    const Placement sum = Placement::partial(ReduceOp::kSum);
    const Placement maximum = Placement::partial(ReduceOp::kMax);
    const Placement same = Placement::replicate();
    CHECK(reduced(sum, same, reduced(same, maximum, term)) == Values{5});
    CHECK(reduced(same, maximum, reduced(sum, same, term)) == Values{4});
  });
}

TEST_CASE("a dim cut twice is not viewed where only one cut divides it after the view") {
  OpMesh mesh({2, 2});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0) S(0)", {30, 10}, counted(300));
    for (const char* op : {"aten::view", "aten::_unsafe_view"}) {
      CHECK(kind_of([&] { ops()(op, {x, Dims{6, 5, 10}}); }) == ErrorKind::kRuntime);
    }
    // The recorded answer asks the kernel to view 8 or 7 rows of 10 as [2, 5, 10] or [1, 5, 10].
    const std::int64_t rows = rank.rank % 2 == 0 ? 8 : 7;
    CHECK(x.local().shape() == Dims{rows, 10});
    const DTensor piece = plain({rows, 10}, read_doubles(x.local()));
    CHECK(kind_of([&] {
            ops()("aten::view", {piece, Dims{2 - rank.rank % 2, 5, 10}});
          }) == ErrorKind::kValue);
  });
}

TEST_CASE("X-54 rms_norm of a cut dim reduces the mean of squares on the way") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(1)", {1, 2}, {3, 4});
    // The mean of 9 and 16 is 12.5, with eps 16, and its root 4.
    const DTensor y = ops().one("aten::rms_norm", {x, Dims{2}, Argument(), 3.5});
    CHECK(whole(y) == Values{0.75, 1});
  });
}

TEST_CASE("an infinity norm of pending maxima reduces them first") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const DTensor term = plain({2}, rank.rank == 0 ? Values{1, -5} : Values{-3, 2});
    const DTensor x = from_local(term, mesh.layout(), {Placement::partial(ReduceOp::kMax)});
    const double infinity = std::numeric_limits<double>::infinity();
    CHECK(whole(ops().one("aten::linalg_vector_norm", {x, infinity})) == Values{2});
    // The recorded answer: the largest magnitude of the terms.
    const DTensor own = ops().one("aten::linalg_vector_norm", {term, infinity});
    CHECK(whole(from_local(own, mesh.layout(), {Placement::partial(ReduceOp::kMax)})) == Values{5});
  });
}

TEST_CASE("X-68 a dim of which the index of gather sees the front only is not cut with it") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4, 2}, counted(8));
    const DTensor column = from_local(plain({1, 1}, {1}, DType::kI64), mesh.layout(),
                                      {Placement::shard(0)});  // [[1], [1]] in two pieces
    CHECK(whole(ops().one("aten::gather", {x, 1, column})) == Values{1, 3});
    // The recorded answer takes piece by piece: row 2 of x for row 1.
    const DTensor piece =
        ops().one("aten::gather", {DTensor(x.local()), 1, DTensor(column.local())});
    CHECK(whole(from_local(piece, mesh.layout(), {Placement::shard(0)})) == Values{1, 5});
  });
}

TEST_CASE("X-66 the op's own first row is taken among placements of one price") {
  OpMesh mesh({2, 2, 2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(1) S(1) R", {2, 8}, counted(16));
    const DTensor y = ops().one("aten::mv", {x, mesh.place("R R R", {8}, Values(8, 1))});
    CHECK(to_string(y.spec()->placements()) == "P(sum)P(sum)R");
    CHECK(whole(y) == Values{28, 92});
    const DTensor self = mesh.place("R S(0) R", {2, 2}, {1, 2, 3, 4});
    const DTensor source = mesh.place("R S(0) R", {2, 2}, {10, 20, 30, 40});
    const DTensor added = ops().one(
        "aten::index_add",
        {self, 0, from_local(plain({2}, {1, 1}, DType::kI64), mesh.layout(), Placements(3)),
         source});
    CHECK(whole(added) == Values{1, 2, 43, 64});
  });
}

TEST_CASE("D-48 a tensor given as out= keeps its placements where the op can write them") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("R", {4, 4}, counted(16));
    const DTensor out = mesh.place("S(0)", {4, 4}, Values(16, 0));
    const Results results = ops()("aten::mm.out", {x, x, out});
    CHECK(results[0].tensor().is_same(out));
    CHECK(to_string(out.spec()->placements()) == "S(0)");
    CHECK(out.local().shape() == Dims{1, 4});
    CHECK(whole(out) ==
          Values{56, 62, 68, 74, 152, 174, 196, 218, 248, 286, 324, 362, 344, 398, 452, 506});
  });
}

TEST_CASE("rows of a table are looked up whatever way table and indices are cut") {
  OpMesh mesh({2, 2});
  mesh.run([&](RankContext&) {
    const Values ids{0, 3, 9, 5, 1, 2, 9, 0};
    Values expected;
    for (const double id : ids) {
      for (int column = 0; column < 3; ++column) expected.push_back(3 * id + column);
    }
    for (const char* table : {"S(0) R", "R S(0)", "S(0) S(0)", "S(0) S(1)"}) {
      for (const char* indices : {"R R", "S(0) R", "R S(0)", "R S(1)", "S(1) S(0)"}) {
        CAPTURE(table);
        CAPTURE(indices);
        const DTensor w = mesh.place(table, {10, 3}, counted(30));
        const DTensor i = mesh.place(indices, {2, 4}, ids, DType::kI64);
        CHECK(whole(ops().one("aten::embedding", {w, i})) == expected);
      }
    }
  });
}

TEST_CASE("K-6 pieces are contiguous, also where a dim of size 1 could keep any stride") {
  OpMesh mesh({4});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(1)", {1, 2}, {4, 5});
    CHECK(x.local().shape() == Dims{1, rank.rank < 2 ? 1 : 0});
    CHECK(x.local().stride()[1] == 1);
    CHECK(whole(x) == Values{4, 5});
  });
}

TEST_CASE("a factory's value is the reduced one: terms of a sum of ones add up to one") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    CHECK(whole(mesh.place("P(sum)", {5}, Values(5, 1))) == Values(5, 1));
    // The recorded answer: every rank's term is one.
    const DTensor terms =
        from_local(plain({5}, Values(5, 1)), mesh.layout(), {Placement::partial(ReduceOp::kSum)});
    CHECK(whole(terms) == Values(5, 4));
  });
}

TEST_CASE("K-18 a masked sum is reduced as often as it is asked for") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor table = mesh.place("S(0)", {5, 2}, counted(10));
    const DTensor rows =
        ops().one("aten::embedding", {table, mesh.place("R", {3}, {4, 0, 4}, DType::kI64)});
    REQUIRE(rows.spec()->has_partial());
    const Values wanted{8, 9, 0, 1, 8, 9};
    CHECK(whole(rows) == wanted);
    CHECK(whole(rows) == wanted);
    const DTensor cut = redistribute(rows, rows.spec()->with({Placement::shard(0)}));
    CHECK(whole(cut) == wanted);
  });
}

TEST_CASE("argmax takes the lowest index of equal values, also over empty shards") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const Values values{3, 9, 1, 1, 9, 1};
    for (const char* text : {"R", "S(0)", "S(1)"}) {
      CAPTURE(text);
      const DTensor x = mesh.place(text, {3, 2}, values);
      CHECK(whole(ops().one("aten::argmax", {x})) == Values{1});
      CHECK(whole(ops().one("aten::argmin", {x})) == Values{2});
      CHECK(whole(ops().one("aten::argmax", {x, 0})) == Values{2, 0});
      CHECK(whole(ops().one("aten::argmax", {x, 1})) == Values{1, 0, 0});
    }
  });
}

TEST_CASE("a local gradient that is not the piece it is labelled as is refused") {
  OpMesh mesh({4});
  mesh.run([&](RankContext& rank) {
    const DTensor leaf = plain({2, 3}, Values(6, 1));
    require_grad(leaf);
    const DTensor x = from_local(leaf, mesh.layout(), {Placement::replicate()});
    const DTensor local = to_local(x, Placements{Placement::shard(0)});
    const DTensor seed = plain({2, 3}, Values(6, 1.0 + static_cast<double>(rank.rank)));
    CHECK(kind_of([&] { backward(local, seed); }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("the gradient of a pending sum's own piece is the reduced one") {
  OpMesh mesh({4});
  mesh.run([&](RankContext& rank) {
    const DTensor leaf = plain({2}, {1, 1});
    require_grad(leaf);
    const Placement sum = Placement::partial(ReduceOp::kSum);
    const DTensor x = from_local(leaf, mesh.layout(), {sum});
    const DTensor local = to_local(x, Placements{sum});
    const double own = 1.0 + static_cast<double>(rank.rank);
    backward(local, plain({2}, {own, 2 * own}));
    CHECK(read_doubles(grad_of(leaf).local()) == Values{10, 20});
  });
}

// The record (semantics README, comm_counts): the views of backward leave strided shards, which are
// moved to meet a replica, since prices count that move as free.
TEST_CASE("X-31 the gradient of attention over heads is gathered, as in the reference") {
  const auto gradient = [](const DTensor& q, const DTensor& k, const DTensor& v) {
    const DTensor scores =
        ops().one("aten::matmul", {q, ops().one("aten::transpose.int", {k, 2, 3})});
    const DTensor weights = ops().one("aten::softmax.int", {scores, 3});
    const DTensor out = ops().one("aten::matmul", {weights, v});
    backward(ops().one("aten::sum", {out}));
    return grad_of(v);
  };
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    Values numbers;
    for (int i = 0; i < 96; ++i) numbers.push_back((i * 7 % 13) / 8.0);
    std::vector<DTensor> cut, full;
    for (int i = 0; i < 3; ++i) {
      cut.push_back(mesh.place("S(1)", {2, 4, 4, 3}, numbers));
      full.push_back(plain({2, 4, 4, 3}, numbers));
      require_grad(cut.back());
      require_grad(full.back());
    }
    const DTensor sharded = gradient(cut[0], cut[1], cut[2]);
    CHECK(to_string(sharded.spec()->placements()) == "R");
    const Values expected = read_doubles(gradient(full[0], full[1], full[2]).local());
    const Values got = whole(sharded);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]));
  });
}

TEST_CASE("vectors beside one that stretches are not cut where it does") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor rows = mesh.place("S(0)", {4, 3}, counted(12));
    for (const char* placements : {"S(0)", "R"}) {
      CAPTURE(placements);
      const DTensor one = mesh.place(placements, {1, 3}, {1, 0, 0});
      const DTensor product = ops().one("aten::linalg_cross", {one, rows});
      CHECK(to_string(product.spec()->placements()) == "R");
      // The recorded answer has no piece of the one vector for rank 1's rows.
      CHECK(whole(product) == Values{0, -2, 1, 0, -5, 4, 0, -8, 7, 0, -11, 10});
    }
  });
}

TEST_CASE("a masked-off gradient is left out on every rank, the others are right") {
  OpMesh mesh({2, 2});
  mesh.run([&](RankContext&) {
    const Values grad = counted(4 * 2 * 2 * 2), input = counted(4 * 3 * 3 * 3);
    const Values weight = counted(2 * 3 * 2 * 2);
    const auto gradients = [](const DTensor& dy, const DTensor& x, const DTensor& w) {
      return ops()("aten::convolution_backward",
                   {dy, x, w, Dims{2}, Dims{1, 1}, Dims{0, 0}, Dims{1, 1}, false, Dims{0, 0}, 1,
                    ArgumentList{false, true, true}});
    };
    const Results alone = gradients(plain({4, 2, 2, 2}, grad), plain({4, 3, 3, 3}, input),
                                    plain({2, 3, 2, 2}, weight));
    const Results sharded = gradients(mesh.place("S(0) S(0)", {4, 2, 2, 2}, grad),
                                      mesh.place("S(0) S(0)", {4, 3, 3, 3}, input),
                                      mesh.place("R R", {2, 3, 2, 2}, weight));
    CHECK_FALSE((sharded[0].is_tensor() && sharded[0].tensor().defined()));
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      CHECK(whole(sharded[i].tensor()) == read_doubles(alone[i].tensor().local()));
    }
  });
}

}  // namespace
}  // namespace shardlab
