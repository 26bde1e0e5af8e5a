#include "propagate/propagator.h"

#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "schema/binder.h"
#include "schema/op_registry.h"

namespace shardlab {
namespace {

struct Fixture {
  Arena arena;
  OpRegistry registry;
  std::unique_ptr<Propagator> propagator;
  const MeshLayout* layout = nullptr;

  explicit Fixture(Dims mesh) {
    register_all_ops(registry);
    propagator = std::make_unique<Propagator>(registry, PlanOptions{});
    layout = arena.layout({.shape = std::move(mesh), .names = {}, .ranks = {}});
  }
  const DTensorSpec* spec(Dims shape, Placements placements) {
    return arena.spec(layout, placements, contiguous_meta(shape, DType::kF32));
  }
  OpSchema schema(const char* name, Arguments args) {
    const OpRow& row = registry.at(name);
    return {&row, bind_arguments(row, std::move(args)), layout};
  }
  OutputSharding decide(const char* name, Arguments args) {
    return *propagator->propagate(schema(name, std::move(args)));
  }
};

const Placement kReplica = Placement::replicate();
Placement shard(std::int64_t dim) { return Placement::shard(dim); }

ErrorKind kind_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::kAssert;
}

}  // namespace

TEST_CASE("K-26 mm: examples of the propagate README") {
  Fixture f({4});
  SUBCASE("the second operand is gathered") {
    const OutputSharding& got =
        f.decide("mm", {f.spec({8, 16}, {shard(0)}), f.spec({16, 8}, {shard(1)})});
    CHECK(to_string(got.outputs[0]->placements()) == "S(0)");
    CHECK(to_string(got.inputs[1]->placements()) == "R");
    CHECK(got.needs_redistribute);
    CHECK(got.costs[0] == doctest::Approx(14.7185).epsilon(1e-5));
  }
  SUBCASE("large operands move to the contracted dim") {
    const OutputSharding& got =
        f.decide("mm", {f.spec({4096, 4096}, {shard(0)}), f.spec({4096, 4096}, {shard(1)})});
    CHECK(to_string(got.outputs[0]->placements()) == "P(sum)");
    CHECK(got.costs[0] == doctest::Approx(1246.16).epsilon(1e-5));
  }
  SUBCASE("3 rows cannot be cut in 4") {
    const OutputSharding& got =
        f.decide("mm", {f.spec({3, 16}, {shard(0)}), f.spec({16, 3}, {shard(1)})});
    CHECK(to_string(got.outputs[0]->placements()) == "R");
    CHECK(got.costs[0] == doctest::Approx(29.4139).epsilon(1e-5));
  }
}

TEST_CASE("candidates depend on which kinds of shard occur") {
  Fixture f({4});
  const Placement sum = Placement::partial(ReduceOp::kSum);
  CHECK(f.decide("relu", {f.spec({8, 8}, {sum})}).candidate_counts[0] == 3);
  CHECK(f.decide("relu", {f.spec({8, 8}, {shard(0)})}).candidate_counts[0] == 5);
}

TEST_CASE("K-25 a decision is made once per key") {
  Fixture f({2, 2});
  const DTensorSpec* x = f.spec({8, 8}, {shard(0), kReplica});
  const std::uint64_t first = f.decide("add.Tensor", {x, x}).number;
  CHECK(f.decide("add.Tensor", {x, x}).number == first);
  CHECK(f.propagator->stats().hits == 1);
  CHECK(f.propagator->stats().entries == 1);
  f.propagator->clear();
  CHECK(f.propagator->stats().entries == 0);
}

TEST_CASE("X-13 an in-place op never moves its target") {
  Fixture f({4});
  const DTensorSpec* sum = f.spec({8, 8}, {Placement::partial(ReduceOp::kSum)});
  const DTensorSpec* rows = f.spec({8, 8}, {shard(0)});
  CHECK(to_string(f.decide("add_.Tensor", {rows, sum}).inputs[1]->placements()) == "S(0)");
  CHECK(kind_of([&] { f.decide("relu_", {sum}); }) == ErrorKind::kRuntime);
}

TEST_CASE("O-29 a decision record says what was priced and what was dropped") {
  Fixture f({4});
  const DecisionRecord record = f.propagator->explain(
      f.schema("mm", {f.spec({3, 16}, {shard(0)}), f.spec({16, 8}, {shard(1)})}));
  REQUIRE(record.strategies.size() == 1);
  const OpStrategy& strategy = record.strategies[0];
  CHECK(strategy.candidates[static_cast<std::size_t>(record.selected[0])].text() ==
        "(R, S(1)) -> S(1)");
  REQUIRE(record.rejected.size() == 1);
  CHECK(record.rejected[0].row == "(S(0), R) -> S(0)");
  CHECK(record.choice == "the first candidate of least cost");
}

TEST_CASE("X-42 the decision for an empty list of dims: all are reduced") {
  Fixture f({4});
  const DTensorSpec* x = f.spec({8, 16}, {shard(1)});
  const auto placements_of = [&](const char* name) {
    return to_string(f.decide(name, {x, Dims{}}).outputs[0]->placements());
  };
  CHECK(placements_of("sum.dim_IntList") == "P(sum)");
  CHECK(placements_of("amax") == "P(max)");
  CHECK(placements_of("mean.dim") == "P(avg)");
  CHECK(placements_of("var.correction") == "R");
  CHECK(f.decide("sum.dim_IntList", {x, Dims{}}).outputs[0]->ndim() == 0);
}

TEST_CASE("the decision for a mean over uneven pieces keeps out= and moves the input") {
  Fixture f({4});
  CHECK(to_string(f.decide("mean", {f.spec({6, 10}, {shard(0)})}).inputs[0]->placements()) == "R");
  const OpRow& row = f.registry.at("mean.dtype_out");
  const DTensorSpec* out = f.spec({}, {Placement::partial(ReduceOp::kAvg)});
  const OpSchema schema{&row, bind_arguments(row, {f.spec({6, 10}, {shard(0)})}, {{"out", out}}),
                        f.layout};
  CHECK(to_string(f.propagator->propagate(schema)->inputs[0]->placements()) == "P(avg)");
}

TEST_CASE("X-13 the decision for filling: zero suits a sum, any number a maximum") {
  Fixture f({4});
  const DTensorSpec* sum = f.spec({8}, {Placement::partial(ReduceOp::kSum)});
  const DTensorSpec* maximum = f.spec({8}, {Placement::partial(ReduceOp::kMax)});
  CHECK(kind_of([&] { f.decide("fill_.Scalar", {sum, 1.0}); }) == ErrorKind::kRuntime);
  CHECK(to_string(f.decide("fill_.Scalar", {sum, 0.0}).outputs[0]->placements()) == "P(sum)");
  CHECK(to_string(f.decide("fill_.Scalar", {maximum, 1.0}).outputs[0]->placements()) == "P(max)");
}

TEST_CASE("lists of a foreach op are decided element by element") {
  Fixture f({4});
  const Argument rows = f.spec({8, 8}, {shard(0)});
  const Argument columns = f.spec({8, 8}, {shard(1)});
  const Argument whole = f.spec({8, 8}, {kReplica});
  const OutputSharding& got =
      f.decide("_foreach_add.List", {ArgumentList{rows, columns}, ArgumentList{rows, whole}});
  CHECK(to_string(got.outputs[0]->placements()) == "S(0)");
  CHECK(to_string(got.outputs[1]->placements()) == "S(1)");
  CHECK(got.costs.size() == 2);
}

// torch 2.15 decided these calls so: the op that writes one tensor refuses, the op on lists does
// not.
TEST_CASE("X-3 lists that are written keep a pending extremum that bounds leave one") {
  Fixture f({4});
  const auto bounded = [&](const char* name, ReduceOp kind) {
    const Argument list = ArgumentList{f.spec({8}, {Placement::partial(kind)})};
    return to_string(f.decide(name, {list, list}).inputs[1]->placements());
  };
  CHECK(bounded("_foreach_clamp_max_.List", ReduceOp::kMin) == "P(min)");
  CHECK(bounded("_foreach_clamp_min_.List", ReduceOp::kMax) == "P(max)");
  CHECK(bounded("_foreach_minimum_.List", ReduceOp::kMin) == "P(min)");
  CHECK(bounded("_foreach_minimum_.List", ReduceOp::kMax) == "R");
  CHECK(bounded("_foreach_maximum_.List", ReduceOp::kMax) == "P(max)");
}

TEST_CASE("X-3 hardshrink.out writes a pending extremum, which no shrinking turns round") {
  Fixture f({4});
  for (const ReduceOp kind : {ReduceOp::kMax, ReduceOp::kMin}) {
    const Argument self = f.spec({8}, {Placement::partial(kind)});
    OpSchema call = f.schema("hardshrink.out", {self, 0.5, self});
    CHECK(f.propagator->propagate(call)->costs[0] == 0);
  }
}

TEST_CASE("a slice that starts before the first element is not taken for the whole dim") {
  Fixture f({4});
  const Argument x = f.spec({8, 4}, {shard(1)});
  const auto result = [&](std::int64_t start) {
    return to_string(f.decide("slice.Tensor", {x, 1, start}).outputs[0]->placements());
  };
  CHECK(result(-4) == "S(1)");
  CHECK(result(-5) == "R");
}

TEST_CASE("a masked-off gradient has no spec on any mesh dim") {
  Fixture f({2, 2});
  const ArgumentList mask = {false, true, true};
  const OutputSharding& got = f.decide(
      "convolution_backward",
      {f.spec({8, 8, 8, 8}, {shard(0), shard(0)}), f.spec({8, 4, 8, 8}, {shard(0), shard(0)}),
       f.spec({8, 4, 3, 3}, {kReplica, kReplica}), Dims{8}, Dims{1, 1}, Dims{1, 1}, Dims{1, 1},
       false, Dims{0, 0}, 1, mask});
  CHECK(got.outputs[0] == nullptr);
  CHECK(to_string(got.outputs[1]->placements()) == "P(sum)P(sum)");
}

TEST_CASE("a tensor in another cutting order is worked on as it is") {
  Fixture f({2, 3});
  const Placements rows = {shard(0), shard(0)};
  const TensorMeta meta = contiguous_meta(Dims{12, 8}, DType::kF32);
  const DTensorSpec* swapped = f.arena.spec(f.layout, rows, ShardOrder{1, 0}, meta);
  const DTensorSpec* usual = f.arena.spec(f.layout, rows, meta);
  CHECK(f.decide("exp", {swapped}).outputs[0] == swapped);
  CHECK_FALSE(f.decide("exp", {swapped}).needs_redistribute);
  CHECK(f.decide("exp_", {swapped}).inputs[0] == swapped);
  // The other operand follows: pieces of different orders do not line up.
  const OutputSharding& sum = f.decide("add.Tensor", {usual, swapped});
  CHECK(sum.outputs[0]->order() == sum.inputs[0]->order());
  CHECK(sum.inputs[0]->order() == sum.inputs[1]->order());
  CHECK(sum.needs_redistribute);
  CHECK(f.decide("add_.Tensor", {usual, swapped}).inputs[0] == usual);
  CHECK(f.decide("add_.Tensor", {usual, swapped}).inputs[1] == usual);
  // Views of a whole mesh count on the default order.
  CHECK(f.decide("unsqueeze", {swapped, 0}).inputs[0] == usual);
  // Dim 0 of the transposed weight is dim 1 of the result.
  const OutputSharding& product =
      f.decide("mm", {f.spec({4, 8}, {kReplica, kReplica}),
                      f.arena.spec(f.layout, {shard(1), shard(1)}, ShardOrder{1, 0},
                                   contiguous_meta(Dims{8, 12}, DType::kF32))});
  CHECK(order_text(product.outputs[0]->placements(), product.outputs[0]->order()) ==
        "S(1)[1]S(1)[0]");
}

}  // namespace shardlab
