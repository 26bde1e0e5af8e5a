// Ops without a row of their own: written out, in place, as new tensors and as copies; and proofs
// for rows of tests/golden/known_differences.toml that they bring.
#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "dispatch/dispatcher.h"
#include "ops/core/derived.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
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
using Numbers = std::vector<double>;

TEST_CASE("out= of extrema, any, mean and prod takes the values that the op gives") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3, 2}, {1, 6, 5, 2, 3, 4});
    const auto written = [&](const char* op, const Arguments& dims, const char* placements,
                             DType dtype = DType::kF32) {
      const DTensor out = mesh.place(placements, {2}, {0, 0}, dtype);
      Arguments args{x};
      args.insert(args.end(), dims.begin(), dims.end());
      args.emplace_back(out);
      ops()(op, args);
      return whole(out);
    };
    CHECK(written("aten::amax.out", {Dims{0}, false}, "S(0)") == Numbers{5, 6});
    CHECK(written("aten::amax.out", {Dims{0}, false}, "P(max)") == Numbers{5, 6});
    CHECK(written("aten::amin.out", {Dims{0}, false}, "R") == Numbers{1, 2});
    CHECK(written("aten::mean.out", {Dims{0}, false, Argument()}, "R") == Numbers{3, 4});
    CHECK(written("aten::prod.int_out", {0, false, Argument()}, "R") == Numbers{15, 48});
    CHECK(written("aten::any.out", {0, false}, "R", DType::kBool) == Numbers{1, 1});
    // The pending reduction of a maximum is not a sum.
    CHECK(kind_of([&] {
            written("aten::amax.out", {Dims{0}, false}, "P(sum)");
          }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("X-3 a tensor that is written moves nothing, whatever its argument is called") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor gradient = mesh.place("R", {4}, {1, 2, 3, 4});
    const DTensor output = mesh.place("R", {4}, {0.5, 0.5, 0, 1});
    const DTensor out = mesh.place("S(0)", {4}, Numbers(4, 0));
    const Tensor before = out.local();
    ops()("aten::sigmoid_backward.grad_input", {gradient, output, out});
    CHECK(out.local().storage() == before.storage());
    CHECK(whole(out) == Numbers{0.25, 0.5, 0, 0});
  });
}

TEST_CASE("X-50 a value above the threshold keeps no order of terms") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor most = ops().one("aten::amax", {mesh.place("S(0)", {2}, {1, 5})});
    CHECK(to_string(most.spec()->placements()) == "P(max)");
    // From the terms: 9 for 1 and 5 for 5, so that the largest would be 9.
    CHECK(whole(ops().one("aten::threshold", {most, 2, 9})) == Numbers{5});
    const DTensor kept = ops().one("aten::threshold", {most, 2, 1});
    CHECK(to_string(kept.spec()->placements()) == "P(max)");
    CHECK(whole(kept) == Numbers{5});
    CHECK(kind_of([&] { ops()("aten::threshold_", {most, 2, 9}); }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("X-3 copy_to writes its first argument, which keeps its placements") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor target = mesh.place("R", {2}, {0, 0});
    ops()("prims::copy_to", {target, mesh.place("P(sum)", {2}, {3, 4})});
    CHECK(to_string(target.spec()->placements()) == "R");
    CHECK(whole(target) == Numbers{3, 4});
  });
}

TEST_CASE("the sign bit is a truth value") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor bits = ops().one("prims::signbit", {mesh.place("S(0)", {3}, {-1, -0.0, 2})});
    CHECK(bits.dtype() == DType::kBool);
    CHECK(whole(bits) == Numbers{1, 1, 0});
  });
}

TEST_CASE("an op that only puts a result elsewhere is derived from the op that gives it") {
  const auto derived = [](const char* op) { return is_derived(*all_ops().find(op)); };
  for (const char* op : {"matmul.out", "huber_loss.out", "permute_copy", "unbind_copy.int_out",
                         "uniform", "renorm_", "zeros_like.out"}) {
    CHECK_MESSAGE(derived(op), op);
  }
  // Decided and computed as a variant of the op's row.
  for (const char* op : {"clone.out", "threshold_", "eye.m_out", "amax.out"}) {
    CHECK_MESSAGE(!derived(op), op);
    CHECK_MESSAGE(all_ops().find(op)->base != nullptr, op);
  }
}

TEST_CASE("D-48 out= of a composite op keeps its placements, or takes a new shape") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(1)", {2, 3}, counted(6));
    const DTensor y = mesh.place("S(0)", {3, 2}, counted(6));
    const DTensor out = mesh.place("S(0)", {2, 2}, Numbers(4, 0));
    CHECK(ops()("aten::matmul.out", {x, y, out})[0].tensor().is_same(out));
    CHECK(to_string(out.spec()->placements()) == "S(0)");
    CHECK(whole(out) == Numbers{10, 13, 28, 40});
    const DTensor small = mesh.place("S(0)", {1}, {0});
    ops()("aten::matmul.out", {x, y, small});
    CHECK(small.shape() == Dims{2, 2});
    CHECK(whole(small) == Numbers{10, 13, 28, 40});
    const DTensor whole_numbers = mesh.place("R", {2, 2}, Numbers(4, 0), DType::kI64);
    CHECK(kind_of([&] { ops()("aten::matmul.out", {x, y, whole_numbers}); }) == ErrorKind::kValue);
  });
}

TEST_CASE("D-48 a factory's result is a replica next to a distributed out= tensor") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    for (const char* placement : {"R", "S(0)"}) {
      const DTensor one = mesh.place(placement, {3}, Numbers(3, 0));
      ops()("aten::scalar_tensor.out", {5, one});
      CHECK(one.shape() == Dims{});
      CHECK(whole(one) == Numbers{5});
      const DTensor window = mesh.place(placement, {7}, Numbers(7, 0));
      ops()("aten::bartlett_window.out", {4, window});
      CHECK(to_string(window.spec()->placements()) == placement);
      CHECK(whole(window) == Numbers{0, 0.5, 1, 0.5});
      ops()("aten::bartlett_window.periodic_out", {4, true, window});
      CHECK(whole(window) == Numbers{0, 0.5, 1, 0.5});
    }
  });
}

TEST_CASE("lists of out= tensors take one result each") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3, 2}, counted(6));
    const DTensor a = mesh.place("R", {3}, Numbers(3, 0)), b = mesh.place("S(0)", {3}, Numbers(3));
    CHECK(ops()("aten::unbind_copy.int_out", {x, 1, ArgumentList{a, b}}).empty());
    CHECK(whole(a) == Numbers{0, 2, 4});
    CHECK(whole(b) == Numbers{1, 3, 5});
    CHECK(kind_of([&] {
            ops()("aten::unbind_copy.int_out", {x, 1, ArgumentList{a}});
          }) == ErrorKind::kValue);
  });
}

TEST_CASE("new and copied tensors leave the first argument alone") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("P(sum)", {4}, {1, 2, 3, 4});
    CHECK(whole(ops().one("aten::fill.Scalar", {x, 7})) == Numbers(4, 7));
    CHECK(whole(x) == Numbers{1, 2, 3, 4});
    const DTensor y = mesh.place("S(0)", {2, 2}, {1, 2, 3, 4});
    const DTensor turned = ops().one("aten::t_copy", {y});
    CHECK(whole(turned) == Numbers{1, 3, 2, 4});
    ops()("aten::zero_", {turned});
    CHECK(whole(y) == Numbers{1, 2, 3, 4});
  });
}

TEST_CASE("an in-place form takes only results of its shape") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor vector = plain({2}, {1, 2}), matrix = plain({3, 2}, counted(6));
    const DTensor self = plain({1}, {1});
    CHECK(kind_of([&] { ops()("aten::addmv_", {self, matrix, vector}); }) == ErrorKind::kValue);
  });
}

}  // namespace
}  // namespace shardlab
