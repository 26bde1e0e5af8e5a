#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "propagate/propagator.h"
#include "schema/binder.h"
#include "schema/computation.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

struct Fixture {
  Arena arena;
  OpRegistry registry;
  std::unique_ptr<Propagator> propagator;
  const MeshLayout* layout;

  explicit Fixture(Dims mesh)
      : layout(arena.layout({.shape = std::move(mesh), .names = {}, .ranks = {}})) {
    register_all_ops(registry);
    propagator = std::make_unique<Propagator>(registry, PlanOptions{});
  }
  const DTensorSpec* spec(Dims shape, std::initializer_list<const char*> texts) {
    Placements placements;
    for (const char* text : texts) placements.push_back(*parse_placement(text));
    return arena.spec(layout, placements, contiguous_meta(shape, DType::kF32));
  }
  OutputSharding decide(const char* name, Arguments args) {
    const OpRow& row = registry.at(name);
    return *propagator->propagate({&row, bind_arguments(row, std::move(args)), layout});
  }
  /// Views of a contiguous tensor of `shape` that starts at element 5 of its memory.
  ViewResults view(const char* name, Dims shape, Arguments plain) {
    const TensorMeta meta = contiguous_meta(shape, DType::kF32);
    const Tensor base(Ref<Storage>(), meta, 5);
    Arguments args{arena.spec(layout, Placements(layout->ndim()), meta)};
    args.insert(args.end(), plain.begin(), plain.end());
    const OpRow& row = registry.at(name);
    args = bind_arguments(row, std::move(args));
    return row.view()(base, MetaArgs(row.op, args, {&meta}));
  }
};

std::string outputs(const OutputSharding& sharding) {
  std::string text;
  for (const DTensorSpec* spec : sharding.outputs) text += to_string(spec->placements()) + " ";
  return text;
}

}  // namespace

TEST_CASE("X-41 the decision for a stack of tensors with different pending reductions") {
  Fixture f({2, 2, 2});
  const OutputSharding& got =
      f.decide("stack", {ArgumentList{f.spec({8, 16}, {"S(0)", "R", "P(max)"}),
                                      f.spec({8, 16}, {"P(sum)", "P(sum)", "R"})},
                         -1});
  CHECK(outputs(got) == "S(0)P(sum)R ");
  CHECK(to_string(got.inputs[0]->placements()) == "S(0)P(sum)R");
}

TEST_CASE("views start at the right element, also of empty pieces") {
  Fixture f({2});
  CHECK(f.view("slice.Tensor", {4, 6}, {1, 2, 6, 2})[0].offset == 5 + 2);
  CHECK(f.view("slice.Tensor", {4, 6}, {1, 2, 6, 2})[0].meta.shape == Dims{4, 2});
  CHECK(f.view("slice.Tensor", {4, 6}, {1, 2, 6, 2})[0].meta.stride == Dims{6, 2});
  CHECK(f.view("slice.Tensor", {4, 6}, {0, -1})[0].offset == 5 + 18);
  CHECK(f.view("slice.Tensor", {0, 6}, {0, 0, 9})[0].meta.shape == Dims{0, 6});
  CHECK(f.view("slice.Tensor", {4, 6}, {0, 3, 1})[0].meta.shape == Dims{0, 6});
  CHECK(f.view("select.int", {4, 6}, {0, -1})[0].offset == 5 + 18);
  CHECK(f.view("select.int", {4, 6}, {1, 2})[0].meta.stride == Dims{6});
  CHECK_THROWS_AS(f.view("select.int", {4, 6}, {1, 6}), Error);

  const ViewResults parts = f.view("split.Tensor", {5, 2}, {2});
  REQUIRE(parts.size() == 3);
  CHECK(parts[2].meta.shape == Dims{1, 2});
  CHECK(parts[2].offset == 5 + 8);
  CHECK(f.view("split.Tensor", {0, 2}, {2}).size() == 1);
  CHECK(f.view("unbind.int", {2, 3}, {1})[2].offset == 5 + 2);
  CHECK(f.view("unbind.int", {2, 3}, {1})[2].meta.stride == Dims{3});
}

TEST_CASE("K-30 a view passes the shape of the local piece, a squeeze the dims to remove") {
  Fixture f({4});
  const OutputSharding& view = f.decide("view", {f.spec({8, 16, 8}, {"S(1)"}), Dims{128, -1}});
  CHECK(outputs(view) == "SS(0,8) ");
  REQUIRE(view.adapted.size() == 1);
  CHECK(view.adapted[0].token == AdaptedArgument::Token::kLocalShapeOfOutput);
  CHECK(view.adapted[0].argument == 1);
  CHECK(f.decide("view", {f.spec({8, 16}, {"P(sum)"}), Dims{128}}).adapted.empty());

  // 4 rows on 4 ranks: a piece has one row, and squeeze must not remove that dim.
  const OutputSharding& squeeze = f.decide("squeeze", {f.spec({4, 1, 3}, {"S(0)"})});
  CHECK(outputs(squeeze) == "S(0) ");
  CHECK(squeeze.local_row == f.registry.find("squeeze.dims"));
  CHECK(squeeze.adapted[0].value.ints() == Dims{1});
}

TEST_CASE("a dim that is selected, joined or split is gathered, unbind refuses") {
  Fixture f({4});
  CHECK(outputs(f.decide("select.int", {f.spec({8, 16}, {"S(0)"}), 0, 3})) == "R ");
  CHECK(outputs(f.decide("select.int", {f.spec({8, 16}, {"S(1)"}), 0, 3})) == "S(0) ");
  CHECK(outputs(f.decide("slice.Tensor", {f.spec({8, 16}, {"S(0)"}), 0, 0, 99})) == "S(0) ");
  CHECK(outputs(f.decide("slice.Tensor", {f.spec({8, 16}, {"S(0)"}), 0, 0, 7})) == "R ");
  CHECK(outputs(f.decide("split.Tensor", {f.spec({8, 16}, {"S(1)"}), 4})) == "S(1) S(1) ");
  CHECK_THROWS_AS(f.decide("unbind.int", {f.spec({8, 16}, {"S(0)"})}), Error);
}

TEST_CASE("K-18 a table cut by rows leaves a mask partial") {
  Fixture f({4});
  const DTensorSpec* indices = f.arena.spec(f.layout, Placements{Placement::replicate()},
                                            contiguous_meta(Dims{3, 5}, DType::kI64));
  CHECK(outputs(f.decide("embedding", {f.spec({16, 8}, {"S(0)"}), indices})) == "MP(sum,16x8,0) ");
  CHECK(outputs(f.decide("embedding", {f.spec({16, 8}, {"S(1)"}), indices})) == "S(2) ");
}

}  // namespace shardlab
