// What users add to the library, each in about ten lines: examples that are compiled and run.
#include <doctest/doctest.h>

#include "ops/factor_rule.h"
#include "ops/meta.h"
#include "sim/world/spmd.h"

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
    row.local = squared;
    row.gradient = squared_gradient;
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
Results rows_here(Calls&, const Arguments& args) {
  return {Argument(args[0].tensor().local().size(0))};
}

TEST_CASE("a user handles an op alone: raw arguments in, any result out") {
  const auto ops = ops_with([](OpRegistry& registry) {
    OpRow row;
    row.op = parse_op_schema("my::rows_here(Tensor x) -> int");
    row.user_handler = rows_here;
    registry.add(std::move(row));
  });
  spmd(2, *ops, [](RankContext& rank) {
    const DTensor x = distribute_tensor(tensor({1, 2, 3}, {3}), init_mesh({{"dp", 2}}), "dp=S(0)");
    CHECK(recording_calls()("my::rows_here", {x})[0].to_int() == (rank.rank == 0 ? 2 : 1));
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

}  // namespace
}  // namespace shardlab
