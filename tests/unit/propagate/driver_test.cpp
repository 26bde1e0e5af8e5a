// The driver of propagation, as far as no recorded decision covers it (K-24 to K-32).
#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "propagate/elements.h"
#include "propagate/propagator.h"
#include "schema/binder.h"
#include "schema/op_registry.h"
#include "tests/unit/plan/plan_support.h"

namespace shardlab {
namespace {

struct TwoRanks {
  Arena arena;
  OpRegistry registry;
  const MeshLayout* layout = arena.layout({.shape = Dims{2}, .names = {}, .ranks = {}});
  TwoRanks() { register_all_ops(registry); }
  const DTensorSpec* spec(std::string_view text, Dims shape = {4, 4}) {
    return arena.spec(layout, test::placements(text), contiguous_meta(shape, DType::kF32));
  }
  OpSchema call(const char* op, Arguments args) {
    const OpRow& row = registry.at(op);
    return {&row, bind_arguments(row, std::move(args)), layout};
  }
};

TEST_CASE(
    "K-24 O-15 lists of independent elements become one call each, other lists stay one call") {
  TwoRanks f;
  const DTensorSpec *a = f.spec("S(0)"), *b = f.spec("R");
  const OpSchema each = f.call("aten::_foreach_add.List", {ArgumentList{a, b}, ArgumentList{b, b}});
  REQUIRE(independent_lists(each));
  const std::vector<ElementOfList> elements = list_elements(each, infer_outputs(each));
  REQUIRE(elements.size() == 2);
  CHECK(elements[0].schema.args[0].spec() == a);
  CHECK(elements[1].schema.args[1].spec() == b);
  CHECK(elements[1].schema.row == &f.registry.at("aten::add.Tensor"));
  CHECK(elements[1].positions == std::vector<std::size_t>{1, 3});
  CHECK_FALSE(independent_lists(f.call("aten::cat", {ArgumentList{a, b}})));
}

TEST_CASE("K-31 each child chooses for itself; a lone tensor follows the first") {
  TwoRanks f;
  Propagator propagator(f.registry, PlanOptions{});
  const DTensorSpec *a = f.spec("S(0)"), *b = f.spec("S(1)"), *lone = f.spec("R", {});
  const OutputSharding sharding =
      *propagator.propagate(f.call("aten::_foreach_mul.Tensor", {ArgumentList{a, b}, lone}));
  CHECK(sharding.outputs == std::vector<const DTensorSpec*>{a, b});
  CHECK(sharding.inputs == std::vector<const DTensorSpec*>{a, b, lone});
  CHECK(sharding.costs.size() == 2);
}

TEST_CASE(
    "K-27 K-29 wanted specs have the input's own metadata; placements alone decide whether it "
    "moves") {
  TwoRanks f;
  Propagator propagator(f.registry, PlanOptions{});
  const DTensorSpec* row = f.spec("S(0)", {1, 4});
  const OutputSharding sharding =
      *propagator.propagate(f.call("aten::add.Tensor", {f.spec("S(0)"), row}));
  CHECK(sharding.needs_redistribute);
  CHECK(sharding.inputs[1]->shape() == Dims{1, 4});
  CHECK(sharding.inputs[1]->placement(0).is_replicate());
}

}  // namespace
}  // namespace shardlab
