// Tensors that are kept for backward, and writes to them. As in PyTorch 2.15.
#include <doctest/doctest.h>

#include "autograd/tape.h"
#include "dispatch/all_ops.h"
#include "schema/computation.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "tests/unit/dispatch/op_calls.h"

namespace shardlab {
namespace {

using namespace test;
using Values = std::vector<double>;

void add(const DTensor& x, double number) { ops()("aten::add_.Scalar", {x, number}); }

/// 5 rows over 4 ranks: 2, 2, 1, 0.
template <typename Body>
void with_leaf(const Body& body) {
  for (const char* placements : {"R", "S(0)"}) {
    CAPTURE(placements);
    OpMesh mesh({4});
    mesh.run([&](RankContext&) {
      const DTensor a = mesh.place(placements, {5, 3}, counted(15));
      require_grad(a);
      body(mesh, a);
    });
  }
}

bool refused(const DTensor& loss) {
  return kind_of([&] { backward(loss); }) == ErrorKind::kRuntime;
}

TEST_CASE("a value that the gradient needs must not be written to before backward") {
  with_leaf([](OpMesh&, const DTensor& a) {
    const DTensor result = call("aten::exp", {times(a, 0.1)});
    add(result, 1);
    CHECK(refused(sum(result)));

    const DTensor y = times(a, 2);
    const DTensor operand = times(y, y);
    add(y, 1);
    CHECK(refused(sum(operand)));
  });
}

TEST_CASE("writes through views and detached tensors count, also where they hold no element") {
  with_leaf([](OpMesh&, const DTensor& a) {
    const auto after = [&](const auto& write) {
      const DTensor y = call("aten::sigmoid", {a});
      write(y);
      return refused(sum(y));
    };
    CHECK(after([](const DTensor& y) { add(rows(y, 1, 5), 1); }));
    CHECK(after([](const DTensor& y) { add(rows(y, 0, 0), 1); }));
    CHECK(after([](const DTensor& y) { add(detach(y), 1); }));
    CHECK(after([](const DTensor& y) { add(detach(rows(y, 4, 5)), 1); }));
    CHECK(after([](const DTensor& y) { add(call("aten::t", {detach(y)}), 1); }));
  });
}

TEST_CASE("an operand that is written to by its own op is refused, the old target is kept") {
  with_leaf([](OpMesh&, const DTensor& a) {
    const DTensor y = times(a, 1);
    ops()("aten::mul_.Tensor", {y, y});
    CHECK(refused(sum(y)));
    const DTensor b = times(a, 1);
    const DTensor target = times(a, 3);
    ops()("aten::mul_.Tensor", {target, b});
    backward(sum(target));
    Values twice = counted(15);
    for (double& value : twice) value *= 6;
    CHECK(whole(grad_of(a)) == twice);
  });
}

TEST_CASE("a tensor that no gradient reads may be written to") {
  with_leaf([](OpMesh& mesh, const DTensor& a) {
    const DTensor y = times(a, 1);
    const DTensor through = call("aten::add.Tensor", {times(y, 2), y});
    const DTensor factor = mesh.place("R", {5, 3}, Values(15, 2.0));
    const DTensor product = times(y, factor);  // reads the factor alone
    add(y, 1);
    backward(sum(call("aten::add.Tensor", {through, product})));
    CHECK(whole(grad_of(a)) == Values(15, 5.0));
    const DTensor unused = times(y, factor);
    add(factor, 1);
    CHECK(refused(sum(unused)));
  });
}

TEST_CASE("a graph that kept something runs once, unless it is retained") {
  with_leaf([](OpMesh&, const DTensor& a) {
    const DTensor loss = sum(times(a, a));
    backward(loss, {}, Graph::kRetain);
    backward(loss);
    Values four = counted(15);
    for (double& value : four) value *= 4;
    CHECK(whole(grad_of(a)) == four);
    CHECK(refused(loss));
    // Sums and sizes keep nothing; a number counts as the tensor that it is in the reference.
    const DTensor nothing_kept = sum(call("aten::t", {a}));
    backward(nothing_kept);
    backward(nothing_kept);
    CHECK(whole(grad_of(a))[14] == 4 * 14 + 2);
    const DTensor number_kept = sum(times(a, 2));
    backward(number_kept);
    CHECK(refused(number_kept));
  });
}

TEST_CASE("leaves have gradients of their own, added to in place") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor a = mesh.place("S(0)", {5, 3}, counted(15));
    const DTensor b = mesh.place("S(0)", {5, 3}, counted(15));
    require_grad(a);
    require_grad(b);
    backward(sum(call("aten::add.Tensor", {a, b})));
    const DTensor held = grad_of(a);
    ops()("aten::mul_.Scalar", {held, 5});
    CHECK(whole(grad_of(a)) == Values(15, 5.0));
    CHECK(whole(grad_of(b)) == Values(15, 1.0));
    backward(sum(call("aten::add.Tensor", {a, b})));
    CHECK(held.is_same(grad_of(a)));
    CHECK(whole(held) == Values(15, 6.0));
    CHECK(whole(grad_of(b)) == Values(15, 2.0));
  });
}

TEST_CASE("every row says what its gradient reads: a program that reads more is a defect") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const auto reads = [](const char* name) { return all_ops().at(name).gradient_reads(); };
    const GradientReads product = reads("aten::mm");
    CHECK(product.argument(0, 0b10));
    CHECK_FALSE(product.argument(0, 0b01));
    CHECK(product.argument(1, 0b01));
    CHECK_FALSE(product.argument(1, 0b10));
    CHECK(reads("aten::tanh").result(0, 1));
    CHECK_FALSE(reads("aten::add.Tensor").argument(0, kAnyArgument));
    CHECK(reads("aten::max.dim").result(1, 1));
    CHECK_FALSE(reads("aten::max.dim").result(0, 1));
    CHECK(reads("aten::view").result_shapes);
    const OpDescriptor op = parse_op_schema("f(Tensor self, Tensor other) -> Tensor");
    CHECK_THROWS(parse_gradient_reads(op, "selfish"));
    CHECK_THROWS(parse_gradient_reads(op, "self:others"));
  });
}

// Samples over 4 ranks: 2, 2, 1, 0.
TEST_CASE(
    "class weights can't require a gradient; a mean and a deviation beside a norm have none") {
  with_leaf([](OpMesh& mesh, const DTensor& a) {
    const DTensor targets = mesh.place("R", {5}, {0, 1, 2, 0, 1}, DType::kI64);
    const DTensor weights = mesh.place("R", {3}, {1, 2, 3});
    const Arguments loss = {a, targets, weights, 1, -100};
    CHECK(ops()("aten::nll_loss_forward", loss)[0].tensor().requires_grad());
    CHECK_FALSE(ops()("aten::nll_loss_forward", loss)[1].tensor().requires_grad());
    require_grad(weights);
    CHECK(kind_of([&] { ops()("aten::nll_loss_forward", loss); }) == ErrorKind::kRuntime);
    CHECK(kind_of([&] { ops()("aten::cross_entropy_loss", loss); }) == ErrorKind::kRuntime);

    const Results norm =
        ops()("aten::native_layer_norm", {a, Dims{3}, Argument(), Argument(), 1e-5});
    CHECK(norm[0].tensor().requires_grad());
    CHECK_FALSE(norm[1].tensor().requires_grad());
    CHECK_FALSE(norm[2].tensor().requires_grad());
  });
}

}  // namespace
}  // namespace shardlab
