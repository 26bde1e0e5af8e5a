// Extensions of the library by users, each in about ten lines: examples that are compiled and run.
#include <doctest/doctest.h>

#include "ops/core/factor_rule.h"
#include "ops/core/meta.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/judge/scenario_run.h"
#include "sim/world/spmd.h"
#include "tests/unit/scenario/scenario_text.h"

namespace shardlab {
namespace {

using Values = std::vector<double>;

TEST_CASE("a user gives an op another sharding rule") {
  const auto ops = ops_with([](OpRegistry& registry) {
    set_factor_rule(registry, "aten::linear", "bk,nk->bn");  // decided as a whole
  });
  spmd(2, *ops, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const DTensor x = distribute_tensor(tensor({1, 2, 3, 4}, {2, 2}), mesh, "tp=S(1)");
    const DTensor w = distribute_tensor(tensor({1, 0, 1, 1}, {2, 2}), mesh, "tp=S(1)");
    const DTensor y = linear(x, w);
    CHECK(y.spec()->placement(0) == Placement::partial());
    CHECK(read_doubles(full_tensor(y).local()) == Values{1, 3, 3, 7});
  });
}

TEST_CASE("a composite op under a user's rule has the gradient of its parts") {
  const auto ops = ops_with(
      [](OpRegistry& registry) { set_factor_rule(registry, "aten::linear", "bk,nk->bn"); });
  spmd(2, *ops, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});  // two columns and one
    const DTensor x = distribute_tensor(tensor({1, 2, 3, 4, 5, 6}, {2, 3}), mesh, "tp=S(1)");
    const DTensor w = distribute_tensor(tensor({1, 0, 2, 1, 1, 0}, {2, 3}), mesh, "tp=S(1)");
    require_grad(x);
    require_grad(w);
    const DTensor y = linear(x, w);
    REQUIRE(y.spec()->placement(0) == Placement::partial());
    const DTensor whole = redistribute(y, "tp=R");
    backward(sum(whole * whole));  // y is 7, 3, 16, 9
    CHECK(read_doubles(full_tensor(grad_of(x)).local()) == Values{20, 6, 28, 50, 18, 64});
    CHECK(read_doubles(full_tensor(grad_of(w)).local()) == Values{142, 188, 234, 78, 102, 126});
    const DTensor fixed = distribute_tensor(tensor({1, 1, 1}, {1, 3}), mesh, "tp=S(1)");
    const std::vector<DTensor> found = gradients(sum(linear(x, fixed)), {x});
    CHECK(read_doubles(full_tensor(found[0]).local()) == Values(6, 1));
  });
}

// In terms of other ops, but with a gradient of its own: here a straight-through one.
Results rounded(Calls& calls, const Arguments& args) { return calls("aten::round", {args[0]}); }
std::vector<DTensor> rounded_gradient(const GradContext& context) { return {context.grads[0]}; }

TEST_CASE("a composite op's own gradient program comes before that of its parts") {
  const auto ops = ops_with([](OpRegistry& registry) {
    OpRow row;
    row.op = parse_op_schema("my::rounded(Tensor x) -> Tensor");
    row.compute = rounded;
    row.gradient = {rounded_gradient};
    registry.add(std::move(row));
    set_factor_rule(registry, "my::rounded", "a->a");
  });
  spmd(2, *ops, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}});
    const DTensor x = distribute_tensor(tensor({0.75, 2.25, -1}, {3}), mesh, "dp=S(0)");
    require_grad(x);
    const DTensor y = recording_calls().one("my::rounded", {x});
    CHECK(read_doubles(full_tensor(y).local()) == Values{1, 2, -1});
    backward(sum(y));
    CHECK(read_doubles(full_tensor(grad_of(x)).local()) == Values{1, 1, 1});
  });
}

// Two results, of which the loss needs both: one walk through the parts.
Results doubled_and_squared(Calls& calls, const Arguments& args) {
  const DTensor doubled = calls.one("aten::mul.Scalar", {args[0], 2.0});
  return {doubled, calls.one("aten::mul.Tensor", {doubled, doubled})};
}

TEST_CASE("a composite op with several results under a user's rule adds up their gradients") {
  const auto ops = ops_with([](OpRegistry& registry) {
    OpRow row;
    row.op = parse_op_schema("my::pair(Tensor x) -> (Tensor, Tensor)");
    row.meta = [](const MetaArgs& args) -> OutputMetas {
      return {{*args.tensor(0)}, {*args.tensor(0)}};
    };
    row.rule = PointwiseRule{""};
    row.compute = RuleOrParts{doubled_and_squared};
    registry.add(std::move(row));
  });
  spmd(3, *ops, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 3}});
    const DTensor x = distribute_tensor(tensor({1, 2, 3, 4}, {4}), mesh, "dp=S(0)");
    require_grad(x);
    const Results both = recording_calls()("my::pair", {x});
    backward(sum(both[0].tensor() + both[1].tensor()));  // 2 + 8 x
    CHECK(read_doubles(full_tensor(grad_of(x)).local()) == Values{10, 18, 26, 34});
  });
}

// y = x * x, and its gradient.
Results squared(Calls& calls, const OpRow&, const Arguments& args) {
  return calls("aten::mul.Tensor", {args[0], args[0]});
}
std::vector<DTensor> squared_gradient(const GradContext& context) {
  const DTensor twice = context.calls.one("aten::mul.Scalar", {context.inputs[0], 2.0});
  return {context.calls.one("aten::mul.Tensor", {context.grads[0], twice})};
}

TEST_CASE("a user adds an op with what each rank computes and a gradient") {
  const auto ops = ops_with([](OpRegistry& registry) {
    OpRow row;
    row.op = parse_op_schema("my::squared(Tensor x) -> Tensor");
    row.meta = meta_like;          // shape, dtype and strides of x
    row.rule = PointwiseRule{""};  // cut as x is; no pending sum passes
    row.compute = squared;
    row.gradient = {squared_gradient};
    registry.add(std::move(row));
  });
  spmd(3, *ops, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 3}});
    const DTensor x = distribute_tensor(tensor({1, 2, 3, 4}, {4}), mesh, "dp=S(0)");
    require_grad(x);
    const DTensor y = recording_calls().one("my::squared", {x});
    CHECK(y.spec() == x.spec());
    CHECK(read_doubles(full_tensor(y).local()) == Values{1, 4, 9, 16});
    backward(sum(y));
    CHECK(read_doubles(full_tensor(grad_of(x)).local()) == Values{2, 4, 6, 8});
  });
}

// An op whose result no rule describes: the pieces' shapes, by rank.
Results rows_here(Calls&, const OpRow&, const Arguments& args) {
  return {Argument(args[0].tensor().local().size(0))};
}

TEST_CASE("a user handles an op alone: raw arguments in, any result out") {
  const auto ops = ops_with([](OpRegistry& registry) {
    OpRow row;
    row.op = parse_op_schema("my::rows_here(Tensor x) -> int");
    row.compute = Handler{rows_here};
    registry.add(std::move(row));
  });
  spmd(2, *ops, [](RankContext& rank) {
    const DTensor x = distribute_tensor(tensor({1, 2, 3}, {3}), init_mesh({{"dp", 2}}), "dp=S(0)");
    CHECK(recording_calls()("my::rows_here", {x})[0].to_int() == (rank.rank == 0 ? 2 : 1));
  });
}

Results shifted(Calls& calls, const OpRow&, const Arguments& args) {
  return calls("aten::add.Tensor", {args[0], args[1]});
}

// Only positional tensors move before a call (D-13): rules that need another placement of a keyword
// are out.
TEST_CASE("a rule is chosen that leaves a tensor where it is which is given by keyword") {
  const auto ops = ops_with([](OpRegistry& registry) {
    OpRow row;
    row.op = parse_op_schema("my::shifted(Tensor x, *, Tensor by) -> Tensor");
    row.meta = meta_like;
    row.rule = DimRuleFn{[](const RuleContext&) -> std::vector<RuleRow> {
      const RulePlacement rows = RulePlacement::any(0);
      return {{{rows}, {rows, rows}}};
    }};
    row.compute = shifted;
    registry.add(std::move(row));
  });
  spmd(2, *ops, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}});
    const DTensor cut = distribute_tensor(tensor({1, 2, 3}, {3}), mesh, "dp=S(0)");
    const DTensor whole = distribute_tensor(tensor({10, 20, 30}, {3}), mesh, "dp=R");
    const DTensor term = sum(distribute_tensor(tensor({1, 2}, {2}), mesh, "dp=S(0)"));
    Calls& calls = recording_calls();
    const DTensor gathered = calls.one("my::shifted", {cut, whole});
    CHECK(gathered.spec()->placement(0) == Placement::replicate());
    CHECK(read_doubles(gathered.local()) == Values{11, 22, 33});
    const DTensor local = calls.one("my::shifted", {whole, cut});
    CHECK(local.spec() == cut.spec());
    CHECK(read_doubles(full_tensor(local).local()) == Values{11, 22, 33});
    try {
      calls.one("my::shifted", {cut, term});
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.text().find("a tensor that is given by keyword would move") != std::string::npos);
    }
  });
}

TEST_CASE("rules that can't be read, or are for other tensors, are refused with what to write") {
  OpRegistry registry;
  const auto kind = [&](const char* op, const char* rule) {
    try {
      set_factor_rule(registry, op, rule);
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kAssert;
  };
  OpRow row;
  row.op = parse_op_schema("my::pair(Tensor x, Tensor y, Tensor? z=None) -> Tensor");
  registry.add(std::move(row));
  CHECK(kind("my::pair", "ab,bc->ac") == ErrorKind::kAssert);
  CHECK(kind("my::pair", "ab,bc,c->ac") == ErrorKind::kAssert);
  CHECK(kind("my::pair", "ab,bc") == ErrorKind::kValue);
  CHECK(kind("my::pair", "ab->ab") == ErrorKind::kValue);
  CHECK(kind("my::pair", "ab,bc->ad") == ErrorKind::kValue);
  CHECK(kind("my::pair", "aa,bc->a") == ErrorKind::kValue);
  CHECK(kind("my::pair", "AB,bc->b") == ErrorKind::kValue);
  CHECK(kind("my::nothing", "a->a") == ErrorKind::kUnsupported);
}

TEST_CASE("D-19 a rule for tensors of other dims leaves the call to the decomposition") {
  const auto ops = ops_with(
      [](OpRegistry& registry) { set_factor_rule(registry, "aten::linear", "bk,nk->bn"); });
  spmd(2, *ops, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 2}});
    const DTensor x = distribute_tensor(tensor({1, 2, 3, 4}, {1, 2, 2}), mesh, "tp=S(1)");
    const DTensor w = distribute_tensor(tensor({1, 0, 1, 1}, {2, 2}), mesh, "tp=R");
    CHECK(read_doubles(full_tensor(linear(x, w)).local()) == Values{1, 3, 3, 7});
  });
}

// The first tensor of a list whole on every rank, the others where they are.
TupleStrategy first_whole(const RuleContext& context) {
  TupleStrategy answer;
  for (const DTensorSpec* tensor : context.tensors) {
    const bool first = answer.children.empty();
    const DTensorSpec* spec = first ? tensor->with(Placements(tensor->layout()->ndim())) : tensor;
    answer.children.push_back({{{{spec}, {spec}, {}}}});
  }
  return answer;
}
TupleStrategy nothing_said(const RuleContext&) { return {}; }

TEST_CASE("O-15 a user's rule may answer for each element of a list") {
  const auto ops = ops_with([](OpRegistry& registry) {
    registry.set_rule("aten::_foreach_mul.Scalar", TupleStrategyFn{first_whole});
    registry.set_rule("aten::_foreach_add.Scalar", TupleStrategyFn{nothing_said});
  });
  spmd(3, *ops, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 3}});  // pieces of 2, 2, 0 rows and of 1, 1, 0
    const DTensor x = distribute_tensor(tensor({1, 2, 3, 4}, {4}), mesh, "dp=S(0)");
    const DTensor y = distribute_tensor(tensor({5, 6}, {2}), mesh, "dp=S(0)");
    const ArgumentList list{x, y};
    const Results doubled = recording_calls()("aten::_foreach_mul.Scalar", {list, 2});
    const ArgumentList& results = doubled[0].list();
    CHECK(results[0].tensor().spec()->placement(0) == Placement::replicate());
    CHECK(results[1].tensor().spec()->placement(0) == Placement::shard(0));
    CHECK(read_doubles(results[0].tensor().local()) == Values{2, 4, 6, 8});
    CHECK(read_doubles(full_tensor(results[1].tensor()).local()) == Values{10, 12});
    try {
      recording_calls()("aten::_foreach_add.Scalar", {list, 2});
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kInternal);
      CHECK(error.find("fix") != nullptr);
    }
  });
}

// Candidates that are not for the call: without a spec for an input; for fewer inputs; on a mesh
// that the program does not run on.
OpStrategy without_input(const RuleContext& context) {
  return {{{{context.tensors[0]}, {nullptr, context.tensors[1]}, {}}}};
}
OpStrategy with_one_input(const RuleContext& context) {
  return {{{{context.tensors[0]}, {context.tensors[0]}, {}}}};
}
OpStrategy on_another_mesh(const RuleContext& context) {
  const DTensorSpec* x = context.tensors[0];
  Arena& arena = context.schema.layout->arena();
  const MeshLayout* other = arena.layout({.shape = Dims{3, 1}, .names = {}, .ranks = {}});
  const DTensorSpec* elsewhere = arena.spec(other, Placements(2), x->meta());
  return {{{{elsewhere}, {elsewhere, elsewhere}, {}}}};
}

TEST_CASE("D-18 a rule's candidate that is not for the call is refused with what to give") {
  for (const StrategyFn rule : {without_input, with_one_input, on_another_mesh}) {
    const auto ops =
        ops_with([&](OpRegistry& registry) { registry.set_rule("aten::maximum", rule); });
    spmd(3, *ops, [](RankContext&) {
      const MeshLayout* mesh = init_mesh({{"dp", 3}});
      const DTensor x = distribute_tensor(tensor({1, 2, 3, 4}, {4}), mesh, "dp=S(0)");
      try {
        recording_calls()("aten::maximum", {x, x});
        FAIL("accepted");
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::kInternal);
        CHECK(error.summary().find("aten::maximum: its rule gives the candidate (") == 0);
        CHECK(*error.find("fix") ==
              "give a spec on the call's mesh for each of its 2 tensors and 1 results");
      }
    });
  }
}

TEST_CASE("a scenario's own rule may be for a program's own op") {
  const auto ops = ops_with([](OpRegistry& registry) {
    OpRow row;
    row.op = parse_op_schema("my::squared(Tensor x) -> Tensor");
    row.meta = meta_like;
    row.rule = PointwiseRule{""};
    row.compute = squared;
    registry.add(std::move(row));
  });
  const char* const text =
      "[mesh]\ntp = 3\n[inputs]\nx = \"f32[4, 5@tp]\"\n"
      "[[rule]]\nop = \"my::squared\"\nrule = \"ab->ab\"\n"
      "[program]\ncode = \"y = torch.ops.my.squared(x)\"\n[expect]\ny = \"f32[4, 5@tp]\"\n";
  CHECK(run_scenario(test::scenario_of(text), *ops, {}).met());
}

}  // namespace
}  // namespace shardlab
