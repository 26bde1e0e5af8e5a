// The first generation of the schema, and its rules under the driver of today (S-1 to S-24).
#include "schema/older_schema.h"

#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "ops/core/meta.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::counted;
using test::kind_of;
using test::OpMesh;
using test::whole;

struct Layouts {
  Arena arena;
  const MeshLayout* layout = arena.layout({.shape = Dims{2, 2}, .names = {}, .ranks = {}});
  const DTensorSpec* rows = spec({Placement::shard(0), Placement::replicate()});
  const DTensorSpec* columns = spec({Placement::replicate(), Placement::shard(1)});
  const DTensorSpec* both = spec({Placement::shard(0), Placement::shard(1)});
  OpDescriptor op = parse_op_schema("f(Tensor x, Tensor y, int n=0, *, int k=0) -> Tensor");

  const DTensorSpec* spec(const Placements& placements) {
    return arena.spec(layout, placements, contiguous_meta(Dims{8, 4}, DType::kF32));
  }
};

// Follows the first argument, as the first rules did; asks for the second to be laid out in the
// same way.
older::OutputSharding follow_first(const older::OpSchema& schema) {
  const std::vector<const DTensorSpec*> specs = schema.args_spec();
  if (specs[0]->has_partial()) return {{}, {}, "a pending sum can't be followed"};
  if (specs.size() == 1 || specs[0]->placements() == specs[1]->placements()) {
    return {specs[0], {}, std::nullopt};
  }
  older::OpSchema suggestion = schema;
  suggestion.args_schema[1] = specs[1]->with(specs[0]->placements());
  suggestion.args_schema[2] = 99;  // not part of the suggestion: only specs are taken
  return {{}, {suggestion}, "the second argument lies elsewhere"};
}

Results sum_of_two(Calls& calls, const OpRow&, const Arguments& args) {
  return calls("aten::add.Tensor", {args[0], args[1], args[2]});
}

const OpRegistry& registry() {
  static const OpRegistry* const made = [] {
    auto* filled = new OpRegistry;
    register_all_ops(*filled);
    OpRow row;
    row.op = parse_op_schema("older::add(Tensor x, Tensor y, int scale=1) -> Tensor");
    row.meta = [](const MetaArgs& args) -> OutputMetas { return {{*args.tensor(0)}}; };
    row.rule = MeshRuleFn{older::run<follow_first>};
    row.compute = sum_of_two;
    filled->add(std::move(row));
    return filled;
  }();
  return *made;
}

TEST_CASE("S-1 S-21 S-22 S-24 a rule of the older style runs under the new driver") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    Calls& ops = recording_calls();
    const DTensor x = mesh.place("S(0)", {3, 2}, counted(6)),
                  y = mesh.place("R", {3, 2}, counted(6));
    const DTensor sum = ops.one("older::add", {x, y, 2});
    CHECK(sum.spec() == x.spec());
    CHECK(whole(sum) == std::vector<double>{0, 3, 6, 9, 12, 15});
    const DTensor pending = mesh.place("P(sum)", {3, 2}, counted(6));
    try {
      ops("older::add", {pending, y});
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kRuntime);
      CHECK(error.summary() == "older::add: a pending sum can't be followed");
    }
  });
}

// Both arguments the same, cut along any dim or whole; the whole candidate states its output only.
older::StrategyType alike(const older::OpSchema& schema) {
  const DTensorSpec* first = schema.args_spec()[0];
  older::OpStrategy strategy;
  strategy.strategies.push_back({first->with(Placements(first->layout()->ndim())), std::nullopt});
  for (std::size_t dim = 0; dim < first->ndim(); ++dim) {
    Placements cut(first->layout()->ndim());
    cut[0] = Placement::shard(static_cast<std::int64_t>(dim));
    const DTensorSpec* spec = first->with(cut);
    strategy.strategies.push_back({spec, {{spec, spec}}});
  }
  return strategy;
}

// A tuple of two results, one child each.
older::StrategyType two_results(const older::OpSchema& schema) {
  const auto child = std::get<older::OpStrategy>(alike(schema));
  return older::TupleStrategy{{child, child}};
}
older::StrategyType uneven_results(const older::OpSchema& schema) {
  const auto child = std::get<older::OpStrategy>(alike(schema));
  return older::TupleStrategy{{child, {{child.strategies[0]}}}};
}

Results sum_and_difference(Calls& calls, const OpRow&, const Arguments& args) {
  return {calls.one("aten::add.Tensor", {args[0], args[1]}),
          calls.one("aten::sub.Tensor", {args[0], args[1]})};
}

OpRow strategy_row(const char* schema, StrategyFn rule, ProgramFn local) {
  OpRow row;
  row.op = parse_op_schema(schema);
  row.meta = [](const MetaArgs& args) -> OutputMetas {
    return OutputMetas(args.op().returns.size(), {*args.tensor(0)});
  };
  row.rule = rule;
  row.compute = local;
  return row;
}

TEST_CASE(
    "S-3 S-24 a strategy list of the older style runs under the new driver, the cheapest wins") {
  OpRegistry filled;
  register_all_ops(filled);
  filled.add(strategy_row("older::plus(Tensor x, Tensor y, int scale=1) -> Tensor",
                          older::run_strategy<alike>, sum_of_two));
  OpMesh mesh(filled, {2});
  mesh.run([&](RankContext&) {
    Calls& ops = recording_calls();
    const auto place = [&](const char* text) { return mesh.place(text, {3, 2}, counted(6)); };
    const std::vector<double> doubled{0, 2, 4, 6, 8, 10};
    const auto check = [&](const char* x, const char* y, const Placement& wanted) {
      CAPTURE(x);
      CAPTURE(y);
      const DTensor sum = ops.one("older::plus", {place(x), place(y)});
      CHECK(sum.spec()->placement(0) == wanted);
      CHECK(whole(sum) == doubled);
    };
    check("R", "R", Placement::replicate());
    check("S(0)", "S(0)", Placement::shard(0));
    check("S(1)", "S(1)", Placement::shard(1));
    check("S(1)", "R", Placement::shard(1));
    check("R", "S(0)", Placement::shard(0));
  });
  const DTensorSpec* cut = mesh.spec("S(1)", {3, 2});
  const OpSchema call{&filled.at("older::plus"), {cut, cut, 1}, mesh.layout()};
  const DecisionRecord record = mesh.propagator().explain(call);
  REQUIRE(record.strategies.size() == 1);
  CHECK(record.strategies[0].candidates.size() == 3);
  CHECK(record.selected == std::vector<int>{2});
  CHECK(record.sharding.candidate_counts == std::vector<int>{3});
}

TEST_CASE("S-9 S-24 a tuple of strategies runs as pairs; children of other lengths are refused") {
  OpRegistry filled;
  register_all_ops(filled);
  filled.add(strategy_row("older::both(Tensor x, Tensor y) -> (Tensor, Tensor)",
                          older::run_strategy<two_results>, sum_and_difference));
  filled.add(strategy_row("older::uneven(Tensor x, Tensor y) -> (Tensor, Tensor)",
                          older::run_strategy<uneven_results>, sum_and_difference));
  OpMesh mesh(filled, {4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3, 2}, counted(6)),
                  y = mesh.place("R", {3, 2}, std::vector<double>(6, 1));
    const Results both = recording_calls()("older::both", {x, y});
    CHECK(whole(both[0].tensor()) == std::vector<double>{1, 2, 3, 4, 5, 6});
    CHECK(whole(both[1].tensor()) == std::vector<double>{-1, 0, 1, 2, 3, 4});
    CHECK(both[1].tensor().spec() == x.spec());
    CHECK(kind_of([&] { recording_calls()("older::uneven", {x, y}); }) == ErrorKind::kValue);
  });
}

TEST_CASE(
    "S-24 X-22 the new driver sees one schema and flags; the older reason is kept beside it") {
  OpMesh mesh(registry(), {2});
  const DTensorSpec *rows = mesh.spec("S(0)", {3, 2}), *replica = mesh.spec("R", {3, 2});
  const OpSchema call{&registry().at("older::add"), {rows, replica, 1}, mesh.layout()};
  const OutputSharding decision = *mesh.propagator().propagate(call);
  CHECK(decision.needs_redistribute);
  CHECK(decision.inputs == std::vector<const DTensorSpec*>{rows, rows});
  CHECK(decision.adapted.empty());
  const older::Settled settled = older::settle(follow_first, older::schema_of(call));
  CHECK(settled.sharding.failed_reason == "the second argument lies elsewhere");
  CHECK(settled.sharding.schema_suggestions.empty());
  const DTensorSpec* pending = mesh.spec("P(sum)", {3, 2});
  const OpSchema refused{&registry().at("older::add"), {pending, replica, 1}, mesh.layout()};
  CHECK_THROWS_WITH_AS(mesh.propagator().propagate(refused),
                       doctest::Contains("a pending sum can't be followed"), Error);
}

TEST_CASE("S-22 K-32 a suggestion is asked about again, and both answers are kept") {
  Layouts f;
  const older::OpSchema call(f.op, {f.rows, f.columns, 4}, {});
  const older::Settled settled = older::settle(follow_first, call);
  CHECK(settled.schema.args_spec() == std::vector<const DTensorSpec*>{f.rows, f.rows});
  CHECK(settled.schema.args_schema[2].to_int() == 4);
  CHECK(std::get<const DTensorSpec*>(settled.sharding.output_spec) == f.rows);
  CHECK(settled.sharding.failed_reason == "the second argument lies elsewhere");
}

TEST_CASE(
    "S-2 S-19 X-23 fake arguments: metadata of every spec, nested ones too, with the older flag") {
  Layouts f;
  const older::OpSchema call(f.op, {f.rows, ArgumentList{f.columns, ArgumentList{f.both}}, 4},
                             {{"k", f.rows}});
  const std::vector<older::Meta> metas = call.inference_metas();
  REQUIRE(metas.size() == 4);
  CHECK(metas[0].meta == f.rows->meta());
  CHECK_FALSE(metas[0].requires_grad);
}

TEST_CASE("S-3 S-4 S-5 S-6 S-7 X-25 X-27 texts of the older generation") {
  Layouts f;
  const older::PlacementStrategy full{f.both, {{f.rows, f.columns}}}, bare{f.rows, {}};
  CHECK(older::placements_text(f.both->placements()) == "S(0)S(1)");
  CHECK(full.text() == "(S(0)R, RS(1)) -> (S(0)S(1)) @ mesh layout: (2, 2)");
  CHECK(bare.text() == "() -> (S(0)R) @ mesh layout: (2, 2)");
  CHECK(older::OpStrategy{{bare}}.text() == "OpStrategy[() -> (S(0)R) @ mesh layout: (2, 2)]");
}

TEST_CASE("S-8 most shards over the outputs; an empty list fails") {
  Layouts f;
  CHECK(older::OpStrategy{{{f.rows, {}}, {f.both, {}}}}.max_num_shards() == 4);
  CHECK(kind_of([] { older::OpStrategy{}.max_num_shards(); }) == ErrorKind::kInternal);
}

TEST_CASE("S-9 S-10 X-5 a tuple strategy lists one child per output") {
  Layouts f;
  const older::TupleStrategy tuple{{{{{f.rows, {}}}}, {{{f.both, {}}}}}};
  CHECK(tuple.text() ==
        "TupleStrategy:\n"
        "  0: OpStrategy[() -> (S(0)R) @ mesh layout: (2, 2)]\n"
        "  1: OpStrategy[() -> (S(0)S(1)) @ mesh layout: (2, 2)]");
}

TEST_CASE("S-11 S-12 X-3 in place and out go by name here") {
  Layouts f;
  const OpDescriptor named = parse_op_schema("__or__.layout_(Tensor x) -> Tensor");
  const OpDescriptor inplace = parse_op_schema("add_.Tensor(Tensor(a!) x) -> Tensor(a!)");
  CHECK(older::OpSchema(named, {}).is_out_variant);
  CHECK(older::OpSchema(named, {}).is_inplace);
  CHECK(older::OpSchema(inplace, {}).is_inplace);
  CHECK_FALSE(older::OpSchema(f.op, {}).is_out_variant);
}

TEST_CASE(
    "S-13 X-20 plain values that a rule replaces reach the local call, the caller's do not "
    "change") {
  Layouts f;
  const older::OpSchema original(f.op, {f.rows, f.rows, 4}, {});
  older::OpSchema adapted = original;
  adapted.args_schema[2] = 2;
  OpRow row;
  row.op = f.op;
  OpRegistry ops;
  const OpRow& stored = ops.add(std::move(row));
  const shardlab::OpSchema call{&stored, {f.rows, f.rows, 4, 0}, f.layout};
  const OutputMetas outputs = {{f.rows->meta()}};
  const MeshRuleResult result = older::mesh_rule_result({call, outputs, {f.rows, f.rows}},
                                                        {adapted, {f.rows, {}, std::nullopt}});
  REQUIRE(result.adapted.size() == 1);
  CHECK(result.adapted[0].argument == 2);
  CHECK(result.adapted[0].value.to_int() == 2);
  CHECK(original.args_schema[2].to_int() == 4);
  CHECK(result.outputs[0] == f.rows->placements());
}

TEST_CASE("S-14 X-26 nested specs are not seen") {
  Layouts f;
  const older::OpSchema call(f.op, {ArgumentList{f.rows}, f.columns, 3}, {});
  CHECK(call.args_spec() == std::vector<const DTensorSpec*>{f.columns});
}

TEST_CASE("S-15 the text names function, positional and keyword values") {
  Layouts f;
  CHECK(older::OpSchema(f.op, {f.rows, 3}, {{"k", 1}}).text() ==
        "OpSchema(func_schema=aten::f, args_schema=(f32[8@m0, 4], 3), kwargs_schema={k: 1})");
}

TEST_CASE(
    "S-16 S-17 S-18 equality is finer than the hash: every value counts, positions of keywords do "
    "not") {
  Layouts f;
  const older::OpSchema a(f.op, {f.rows, 3}, {{"k", 1}, {"j", 2}});
  const older::OpSchema b(f.op, {f.rows, 4}, {{"k", 1}, {"j", 2}});
  const older::OpSchema c(f.op, {f.rows, 3}, {{"j", 2}, {"k", 1}});
  CHECK(a.hash() == b.hash());
  CHECK_FALSE(a == b);
  CHECK(a.hash() == c.hash());
  CHECK(a == c);
  CHECK(a.hash() != older::OpSchema(f.op, {f.columns, 3}, {{"k", 1}, {"j", 2}}).hash());
  CHECK(a.hash() != older::OpSchema(f.op, {f.rows, 3}, {{"k", 5}, {"j", 2}}).hash());
}

TEST_CASE("S-20 a suggestion goes onto the original at the top level") {
  Layouts f;
  const older::OpSchema original(f.op, {f.rows, 3, f.rows, ArgumentList{f.rows}}, {{"k", 1}});
  older::OpSchema suggestion(f.op, {f.columns, f.both}, {{"k", 7}});
  suggestion.rewrap_onto(original);
  CHECK(suggestion.args_spec() == std::vector<const DTensorSpec*>{f.columns, f.both});
  CHECK(suggestion.args_schema[1].to_int() == 3);
  CHECK(suggestion.args_schema[3].list()[0].spec() == f.rows);
  CHECK(suggestion.kwargs_schema[0].second.to_int() == 1);
  older::OpSchema short_one(f.op, {f.columns}, {});
  CHECK(kind_of([&] { short_one.rewrap_onto(original); }) == ErrorKind::kInternal);
}

TEST_CASE(
    "S-23 S-24 strategies convert: one by one, tuples paired by index, other lengths refused") {
  Layouts f;
  const older::OpStrategy first{{{f.rows, {{f.columns}}}, {f.both, {}}}};
  const OpStrategy single = older::converted(older::StrategyType(first));
  REQUIRE(single.candidates.size() == 2);
  CHECK(single.candidates[0].outputs == std::vector<const DTensorSpec*>{f.rows});
  CHECK(single.candidates[0].inputs == std::vector<const DTensorSpec*>{f.columns});
  CHECK(single.candidates[0].input_costs.empty());
  const older::OpStrategy second{{{f.columns, {}}, {f.columns, {}}}};
  const OpStrategy pairs =
      older::converted(older::StrategyType(older::TupleStrategy{{first, second}}));
  REQUIRE(pairs.candidates.size() == 2);
  CHECK(pairs.candidates[1].outputs == std::vector<const DTensorSpec*>{f.both, f.columns});
  const older::TupleStrategy uneven{{first, {{{f.rows, {}}}}}};
  CHECK(kind_of([&] { older::converted(older::StrategyType(uneven)); }) == ErrorKind::kValue);
}

}  // namespace
}  // namespace shardlab
