// Integers of every width on ranks of which some hold nothing, against PyTorch's results on one
// device: pending reductions come after an op only if wrapping and empty pieces allow it.
#include <doctest/doctest.h>

#include <limits>

#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab::test {
namespace {

using Values = std::vector<double>;

constexpr DType kIntegers[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64};

Placement pending(ReduceOp op) { return Placement::partial(op); }

/// Three numbers on four ranks: the last one holds none.
struct Three {
  explicit Three(DType dtype, Values values) : dtype(dtype), values(std::move(values)) {}
  DTensor on(OpMesh& mesh) const { return mesh.place("S(0)", {3}, values, dtype); }
  DType dtype;
  Values values;
};

DTensor cast(const DTensor& x, DType dtype) {
  return ops().one("aten::_to_copy", {x, Argument(dtype)});
}

}  // namespace

TEST_CASE("X-50 an empty piece changes no extremum, in any dtype") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    for (const DType dtype : kIntegers) {
      CAPTURE(to_string(dtype));
      const DTensor low = Three(dtype, {-6, -3, -5}).on(mesh);
      const DTensor high = Three(dtype, {6, 3, 5}).on(mesh);
      for (const char* op : {"aten::amax", "aten::max"}) {
        CHECK(whole(ops().one(op, {low})) == Values{-3});
      }
      for (const char* op : {"aten::amin", "aten::min"}) {
        CHECK(whole(ops().one(op, {high})) == Values{3});
      }
      CHECK(whole(ops().one("aten::argmax", {low})) == Values{1});
      CHECK(whole(ops().one("aten::argmin", {high})) == Values{1});
      CHECK(whole(ops().one("aten::argmax", {low, 0})) == Values{1});
      CHECK(whole(ops().one("aten::argmin", {high, 0, true})) == Values{1});
    }
    CHECK(whole(ops().one("aten::amin", {Three(DType::kU8, {255, 250, 251}).on(mesh)})) ==
          Values{250});
    CHECK(whole(ops().one("aten::argmin", {Three(DType::kU8, {255, 250, 251}).on(mesh)})) ==
          Values{1});
    CHECK(whole(ops().one("aten::amax", {Three(DType::kBool, {0, 0, 0}).on(mesh)})) == Values{0});
    CHECK(whole(ops().one("aten::amin", {Three(DType::kBool, {1, 1, 1}).on(mesh)})) == Values{1});
  });
}

TEST_CASE("X-50 minus a pending maximum of integers is computed on the maximum") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    for (const DType dtype : kIntegers) {
      CAPTURE(to_string(dtype));
      const DTensor most = ops().one("aten::amax", {Three(dtype, {-6, 3, 5}).on(mesh)});
      REQUIRE(most.spec()->placement(0) == pending(ReduceOp::kMax));
      CHECK(whole(ops().one("aten::neg", {most})) == Values{-5});
    }
    const DTensor small = ops().one("aten::amax", {Three(DType::kU8, {0, 5, 0}).on(mesh)});
    CHECK(whole(ops().one("aten::neg", {small})) == Values{251});
    // Floats do not wrap: a maximum becomes a minimum.
    const DTensor real = ops().one("aten::amax", {Three(DType::kF32, {-6, 3, 5}).on(mesh)});
    const DTensor minus = ops().one("aten::neg", {real});
    CHECK(minus.spec()->placement(0) == pending(ReduceOp::kMin));
    CHECK(whole(minus) == Values{-5});
  });
}

TEST_CASE("X-50 a number added to a pending maximum of integers may wrap") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor most = ops().one("aten::amax", {Three(DType::kU8, {227, 195, 3}).on(mesh)});
    const DTensor added = mesh.place("R", {}, {32}, DType::kU8);
    CHECK(whole(ops().one("aten::add.Tensor", {most, added})) == Values{3});
    const DTensor least = ops().one("aten::amin", {Three(DType::kI64, {1, 2, 3}).on(mesh)});
    const DTensor greatest = ops().one("aten::amax", {Three(DType::kI64, {1, 2, 3}).on(mesh)});
    CHECK(whole(ops().one("aten::add.Tensor", {least, greatest})) == Values{4});
    const DTensor low = ops().one("aten::amax", {Three(DType::kI8, {-6, -3, -5}).on(mesh)});
    const DTensor minus = mesh.place("R", {}, {-100}, DType::kI8);
    CHECK(whole(ops().one("aten::add.Tensor", {low, minus})) == Values{-103});
    CHECK(kind_of([&] { ops()("aten::add_.Tensor", {low, minus}); }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("X-10 a replica of integers beside a pending sum stays whole") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor sum = ops().one("aten::sum", {Three(DType::kI64, {-6, 3, 5}).on(mesh)});
    REQUIRE(sum.spec()->placement(0) == pending(ReduceOp::kSum));
    const DTensor added = mesh.place("R", {}, {32}, DType::kI64);
    CHECK(whole(ops().one("aten::add.Tensor", {added, sum})) == Values{34});
    CHECK(kind_of([&] { ops()("aten::sum.out", {added, {}, sum}); }) == ErrorKind::kRuntime);
    const DTensor real = ops().one("aten::sum", {Three(DType::kF32, {-6, 3, 5}).on(mesh)});
    const DTensor both = ops().one("aten::add.Tensor", {real, mesh.place("R", {}, {32})});
    CHECK(both.spec()->placement(0) == pending(ReduceOp::kSum));
    CHECK(whole(both) == Values{34});
  });
}

TEST_CASE("X-50 a pending extremum passes a cast where every number keeps its place") {
  struct Row {
    DType from, to;
    Values values;
    double most;
    bool passes;
  };
  const Row rows[] = {
      {DType::kI64, DType::kI32, {-6, -3, -5}, -3, false},
      {DType::kI64, DType::kI16, {-6, -3, -5}, -3, false},
      {DType::kI8, DType::kI32, {-6, -3, -5}, -3, true},
      {DType::kU8, DType::kI8, {200, 3, 5}, -56, false},
      {DType::kU8, DType::kI16, {200, 3, 5}, 200, true},
      {DType::kI8, DType::kU8, {-6, -3, -5}, 253, false},
      {DType::kF32, DType::kI64, {-6.5, -3.5, -5.5}, -3, false},
      {DType::kI64, DType::kF32, {-6, -3, -5}, -3, true},
      {DType::kF32, DType::kBF16, {-6, -3, -5}, -3, true},
      {DType::kBool, DType::kI64, {0, 0, 0}, 0, true},
      {DType::kI64, DType::kBool, {-6, -3, -5}, 1, false},
  };
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    for (const Row& row : rows) {
      CAPTURE(to_string(row.from));
      CAPTURE(to_string(row.to));
      const DTensor most = ops().one("aten::amax", {Three(row.from, row.values).on(mesh)});
      const DTensor result = cast(most, row.to);
      CHECK(whole(result) == Values{row.most});
      CHECK((result.spec()->placement(0) == pending(ReduceOp::kMax)) == row.passes);
    }
    const DTensor least = ops().one("aten::amin", {Three(DType::kF32, {1, 2, 3}).on(mesh)});
    CHECK(whole(cast(least, DType::kI64)) == Values{1});
  });
}

TEST_CASE("X-50 the mean of a window of pending integers is that of the whole") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    for (const DType dtype : kIntegers) {
      CAPTURE(to_string(dtype));
      const DTensor wide = from_local(plain({1, 1, 2}, {1, 2}, dtype), mesh.layout(),
                                      {pending(ReduceOp::kSum)});  // 4 and 8
      CHECK(whole(ops().one("aten::avg_pool1d", {wide, Dims{2}})) == Values{6});
    }
    const DTensor real =
        from_local(plain({1, 1, 2}, {1, 2}, DType::kF32), mesh.layout(), {pending(ReduceOp::kSum)});
    const DTensor mean = ops().one("aten::avg_pool1d", {real, Dims{2}});
    CHECK(mean.spec()->placement(0) == pending(ReduceOp::kSum));
    CHECK(whole(mean) == Values{6});
  });
}

TEST_CASE("X-50 a pending sum of integers passes only to integers that are no wider") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = Three(DType::kU8, {200, 100, 50}).on(mesh);
    const DTensor sum = ops().one("aten::sum", {x, DType::kU8});
    REQUIRE(sum.spec()->placement(0) == pending(ReduceOp::kSum));
    CHECK(whole(sum) == Values{94});
    CHECK(whole(ops().one("aten::sum", {x})) == Values{350});
    CHECK(whole(cast(sum, DType::kI64)) == Values{94});
    CHECK(whole(cast(sum, DType::kF32)) == Values{94});
    CHECK(whole(cast(sum, DType::kI8)) == Values{94});
    CHECK(cast(sum, DType::kI8).spec()->placement(0) == pending(ReduceOp::kSum));
    CHECK(whole(ops().one("aten::sum", {sum})) == Values{94});
    CHECK(whole(ops().one("aten::div.Scalar", {sum, 4})) == Values{23.5});
    CHECK(whole(ops().one("aten::mul.Scalar", {sum, 0.5})) == Values{47});
    CHECK(whole(ops().one("aten::mul.Scalar", {sum, 3})) == Values{26});
    const auto terms = [&](double term, DType dtype) {
      return from_local(plain({1}, {term}, dtype), mesh.layout(), {pending(ReduceOp::kSum)});
    };
    const DTensor wide = terms(250, DType::kI64);   // 1000
    const DTensor narrow = terms(200, DType::kU8);  // 800 mod 256
    CHECK(whole(ops().one("aten::add.Tensor", {narrow, wide})) == Values{1032});
    CHECK(whole(ops().one("aten::cat", {ArgumentList{wide, narrow}})) == Values{1000, 32});
    CHECK(whole(ops().one("aten::stack", {ArgumentList{wide, narrow}})) == Values{1000, 32});
    CHECK(whole(ops().one("aten::cumsum", {narrow, 0})) == Values{32});
    CHECK(whole(cast(wide, DType::kU8)) == Values{232});
    // Above 2^24 terms would be rounded before they are added.
    const DTensor large = ops().one("aten::sum", {Three(DType::kI64, {1e9 + 1, -1e9, 0}).on(mesh)});
    CHECK(whole(cast(large, DType::kF32)) == Values{1});
  });
}

TEST_CASE("X-50 infinities of a pending extremum do not meet others, nor NaN its sign") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor least =
        ops().one("aten::amin", {Three(DType::kF32, {1, -kInfinity, 2}).on(mesh)});
    CHECK(whole(ops().one("aten::add.Tensor", {least, least})) == Values{-kInfinity});
    const DTensor high = mesh.place("R", {}, {kInfinity});
    const DTensor most = ops().one("aten::amax", {Three(DType::kF32, {1, 3, 2}).on(mesh)});
    CHECK(whole(ops().one("aten::add.Tensor", {most, high})) == Values{kInfinity});
    CHECK(whole(ops().one("aten::sub.Tensor", {least, high})) == Values{-kInfinity});
    const DTensor none = ops().one("aten::amax", {Three(DType::kF32, {1, kNan, 2}).on(mesh)});
    CHECK(whole(ops().one("aten::sign", {none})) == Values{0});
    CHECK(whole(ops().one("aten::sgn", {none})) == Values{0});
    CHECK(kind_of([&] { ops()("aten::add_.Tensor", {most, high}); }) == ErrorKind::kRuntime);
    CHECK(kind_of([&] { ops()("aten::sign_", {none}); }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("X-50 a pending sum is read as another dtype once it is there") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor half = from_local(plain({1}, {0.5}), mesh.layout(), {pending(ReduceOp::kSum)});
    const DTensor bits = ops().one("aten::view.dtype", {half, DType::kI32});
    CHECK(whole(bits) == Values{0x40000000});  // of 2.0; those of 0.5, 4 times, are 0xFC000000
    CHECK(bits.spec()->placement(0) == Placement::replicate());
  });
}

TEST_CASE("X-50 a number that makes NaN of 0 is not applied to the term of an empty piece") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const DTensor sum = ops().one("aten::sum", {Three(DType::kF32, {1, 2, 3}).on(mesh)});
    CHECK(whole(ops().one("aten::div.Scalar", {sum, 0})) == Values{kInfinity});
    CHECK(whole(ops().one("aten::mul.Scalar", {sum, -kInfinity})) == Values{-kInfinity});
    CHECK(whole(ops().one("aten::div.Scalar", {sum, kInfinity})) == Values{0});
    CHECK(whole(ops().one("aten::div.Tensor", {plain({}, {12}), sum})) == Values{2});
    CHECK(ops().one("aten::div.Scalar", {sum, 2}).spec()->placement(0) == pending(ReduceOp::kSum));
  });
}

}  // namespace shardlab::test
