#include "autograd/autograd.h"

#include <doctest/doctest.h>

#include "comm/observer.h"
#include "dispatch/all_ops.h"
#include "schema/argument.h"
#include "schema/calls.h"
#include "schema/computation.h"
#include "schema/meta_args.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "schema/sharding_rule.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/op_calls.h"

namespace shardlab {
namespace {

using test::counted;
using test::kind_of;
using test::OpMesh;
using test::ops;
using test::plain;
using test::sum;
using test::times;
using test::whole;
using Values = std::vector<double>;

/// The dtypes of communicated tensors.
class Traffic : public Observer {
 public:
  void op_begins(const OpSchema&, const OutputSharding&) override {}
  void op_ends() override {}
  void redistribution(const RedistributionRecord& record) override {
    dtypes.push_back(record.source->dtype());
    backward.push_back(record.backward);
  }
  void collective(const CollectiveRecord&) override {}
  std::vector<DType> dtypes;
  std::vector<bool> backward;
};

TEST_CASE("a leaf adds up its gradients, within one backward and over several") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    require_grad(x);
    CHECK_FALSE(grad_of(x).defined());
    backward(sum(times(x, x)));
    CHECK(whole(grad_of(x)) == Values{2, 4, 6});
    backward(sum(x));
    CHECK(whole(grad_of(x)) == Values{3, 5, 7});
    CHECK(grad_of(x).spec()->placement(0) == Placement::shard(0));
  });
}

TEST_CASE("O-15 an op on lists is recorded as what it does to each element") {
  OpMesh mesh({3});  // pieces of 2, 2, 0 rows and of 1, 0, 0
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4}, {1, 2, 3, 4}), y = mesh.place("S(0)", {1}, {5});
    const DTensor a = mesh.place("R", {4}, {2, 3, 4, 5}), b = mesh.place("R", {1}, {7});
    require_grad(x);
    require_grad(b);
    const Results results =
        ops()("aten::_foreach_mul.List", {ArgumentList{x, y}, ArgumentList{a, b}});
    backward(sum(results[0].list()[0].tensor()));
    CHECK(whole(grad_of(x)) == Values{2, 3, 4, 5});
    CHECK_FALSE(grad_of(b).defined());
    backward(sum(results[0].list()[1].tensor()));
    CHECK(whole(grad_of(b)) == Values{5});
  });
}

// Also for operands that promotion casts; values and refusals as recorded from the reference.
TEST_CASE("a gradient has the dtype and shape of its tensor, or the op is refused") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    const DTensor y = mesh.place("S(0)", {3}, {4, 5, 6}, DType::kF64);
    require_grad(x);
    require_grad(y);
    const DTensor stacked = ops().one("aten::stack", {ArgumentList{x, y}});
    CHECK(stacked.dtype() == DType::kF64);
    backward(sum(times(stacked, stacked)));
    CHECK(grad_of(x).dtype() == DType::kF32);
    CHECK(whole(grad_of(x)) == Values{2, 4, 6});
    CHECK(grad_of(y).dtype() == DType::kF64);
    CHECK(whole(grad_of(y)) == Values{8, 10, 12});

    const DTensor target = plain({3, 2}, counted(6)), source = plain({3, 1}, counted(3));
    require_grad(source);
    const DTensor index = plain({2, 1}, {0, 1}, DType::kI64);
    const DTensor added = ops().one("aten::scatter_add", {target, 0, index, source});
    CHECK(kind_of([&] { backward(sum(added)); }) == ErrorKind::kRuntime);
    CHECK(kind_of([&] {
            ops()("aten::slice_scatter", {target, source, 1, 0, 2});
          }) == ErrorKind::kValue);
    const DTensor image = plain({1, 1, 3}, counted(3));
    const DTensor weight = plain({1, 1, 1}, {2}, DType::kBF16);
    CHECK(kind_of([&] { ops()("aten::conv1d", {image, weight}); }) == ErrorKind::kValue);
  });
}

Results doubled_each(Calls& calls, const OpRow&, const Arguments& args) {
  ArgumentList doubled;
  for (const Argument& x : args[0].list()) doubled.push_back(calls.one("aten::mul.Scalar", {x, 2}));
  return {Argument(std::move(doubled))};
}
OutputMetas like_each(const MetaArgs& args) {
  OutputMetas outputs;
  for (const TensorMeta* meta : args.tensors(0)) outputs.push_back({*meta});
  return outputs;
}
std::vector<DTensor> straight_through(const GradContext& context) {
  return {context.grads.begin(), context.grads.end()};
}

TEST_CASE("O-15 an op on lists that has a gradient of its own is recorded with it") {
  OpRegistry registry;
  register_all_ops(registry);
  OpRow row;
  row.op = parse_op_schema("my::doubled_each(Tensor[] x) -> Tensor[]");
  row.meta = like_each;
  row.rule = PointwiseRule{""};
  row.flags = kIndependentLists;
  row.compute = doubled_each;
  row.gradient = {straight_through, ""};
  registry.add(std::move(row));
  OpMesh mesh(registry, {3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4}, {1, 2, 3, 4}), y = mesh.place("S(0)", {1}, {5});
    require_grad(x);
    require_grad(y);
    const Results results = ops()("my::doubled_each", {ArgumentList{x, y}});
    const DTensor &first = results[0].list()[0].tensor(), &second = results[0].list()[1].tensor();
    CHECK(whole(first) == Values{2, 4, 6, 8});
    backward(test::call("aten::add.Tensor", {sum(first), sum(second)}));
    CHECK(whole(grad_of(x)) == Values{1, 1, 1, 1});
    CHECK(whole(grad_of(y)) == Values{1});
  });
}

TEST_CASE("a second backward through the same graph is refused") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("R", {3}, {1, 2, 3});
    require_grad(x);
    const DTensor loss = sum(times(x, x));
    backward(loss);
    CHECK(kind_of([&] { backward(loss); }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("writing to a leaf or to an out tensor is refused while gradients are recorded") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    require_grad(x);
    CHECK(kind_of([&] { ops()("aten::mul_.Scalar", {x, 2.0}); }) == ErrorKind::kRuntime);
    const DTensor out = mesh.place("S(0)", {3}, {0, 0, 0});
    CHECK(kind_of([&] { ops()("aten::add.out", {x, x, 1, out}); }) == ErrorKind::kRuntime);
    CHECK(whole(x) == Values{1, 2, 3});
    rank.mode &= ~static_cast<std::uint32_t>(kModeAutograd);
    ops()("aten::mul_.Scalar", {x, 2.0});
    CHECK(whole(x) == Values{2, 4, 6});
  });
}

TEST_CASE("an in-place op on a result takes part in the gradient") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    require_grad(x);
    const DTensor y = times(x, x);
    ops()("aten::mul_.Scalar", {y, 3.0});
    backward(sum(y));
    CHECK(whole(grad_of(x)) == Values{6, 12, 18});
  });
}

TEST_CASE("a tensor that cannot have a gradient is refused") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor index = mesh.place("R", {2}, {0, 1}, DType::kI64);
    CHECK(kind_of([&] { require_grad(index); }) == ErrorKind::kValue);
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    CHECK(kind_of([&] { backward(sum(x)); }) == ErrorKind::kRuntime);
    require_grad(x);
    const DTensor y = times(x, x);
    require_grad(y);  // it does already
    CHECK(kind_of([&] { backward(y); }) == ErrorKind::kValue);
  });
}

TEST_CASE("gradients() answers for leaves and results alike and leaves the leaves alone") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    const DTensor other = mesh.place("S(0)", {3}, {1, 1, 1});
    require_grad(x);
    require_grad(other);
    const DTensor y = times(x, x);
    const DTensor loss = sum(times(y, y));
    const auto grads = gradients(loss, {x, y, other});
    CHECK(whole(grads[0]) == Values{4, 32, 108});
    CHECK(whole(grads[1]) == Values{2, 8, 18});
    CHECK_FALSE(grads[2].defined());
    CHECK_FALSE(grad_of(x).defined());
  });
}

TEST_CASE("a seed stands for the gradient of a result that is no scalar") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    require_grad(x);
    backward(times(x, x), mesh.place("P(sum)", {3}, {1, 0, -1}));
    CHECK(whole(grad_of(x)) == Values{2, 0, -6});
  });
}

TEST_CASE("R-71 R-73 gradients go back through redistribute to the placements of its input") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3, 2}, counted(6));
    require_grad(x);
    const DTensor columns = redistribute(x, x.spec()->with({Placement::shard(1)}));
    backward(sum(times(columns, columns)));
    CHECK(grad_of(x).spec() == x.spec());
    CHECK(whole(grad_of(x)) == Values{0, 2, 4, 6, 8, 10});
  });
}

TEST_CASE("R-64 R-70 R-72 W-12 dtypes of the forward and of the backward communication") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    Traffic traffic;
    rank.observer = &traffic;
    rank.mode |= kModeObserve;
    const DTensor x = mesh.place("S(0)", {4}, {1, 2, 3, 4});
    require_grad(x);
    const DTensorSpec* replica = x.spec()->with({Placement::replicate()});
    const DTensor y = redistribute(x, replica, {}, {.forward = DType::kBF16});
    CHECK(y.dtype() == DType::kBF16);
    const DTensor seed = mesh.place("P(sum)", {4}, {1, 1, 1, 1}, DType::kBF16);
    DTensor grad = gradients(y, {x}, seed)[0];
    CHECK(grad.dtype() == DType::kF32);
    CHECK(whole(grad) == Values{1, 1, 1, 1});
    REQUIRE(traffic.dtypes.size() >= 2);
    CHECK(traffic.dtypes[0] == DType::kBF16);
    CHECK(traffic.dtypes[1] == DType::kF32);

    traffic.dtypes.clear();
    const DTensor z =
        redistribute(x, replica, {}, {.forward = DType::kBF16, .backward = DType::kBF16});
    grad = gradients(z, {x}, seed)[0];
    CHECK(grad.dtype() == DType::kF32);
    REQUIRE(traffic.dtypes.size() >= 2);
    CHECK(traffic.dtypes[1] == DType::kBF16);
    rank.mode &= ~static_cast<std::uint32_t>(kModeObserve);
  });
}

TEST_CASE("gradients enter and leave the distributed level with their placements") {
  OpMesh mesh({2});
  mesh.run([&](RankContext& rank) {
    const Dims rows{rank.rank == 0 ? 2 : 1};
    const DTensor local = plain(rows, rank.rank == 0 ? Values{1, 2} : Values{3});
    require_grad(local);
    const DTensor x = from_local(local, mesh.layout(), {Placement::shard(0)},
                                 contiguous_meta(Dims{3}, DType::kF32));
    const DTensor back = to_local(times(x, x));
    CHECK_FALSE(back.distributed());
    CHECK(back.shape() == rows);
    backward(sum(back));
    const DTensor grad = grad_of(local);
    CHECK_FALSE(grad.distributed());
    CHECK(read_doubles(grad.local()) == (rank.rank == 0 ? Values{2, 4} : Values{6}));
  });
}

TEST_CASE("K-17 the gradient of a full tensor is cut to its input's pieces") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4}, {1, 2, 3, 4});
    require_grad(x);
    const DTensor full = full_tensor(x);
    backward(sum(times(full, full)));
    CHECK(grad_of(x).spec() == x.spec());
    CHECK(whole(grad_of(x)) == Values{2, 4, 6, 8});
  });
}

}  // namespace
}  // namespace shardlab
