// A user's program in place of an op's kernel: its callers, arguments, results, and refusals.
// Expected values are those of the op on whole values.
#include <doctest/doctest.h>

#include "api/collectives.h"
#include "api/groups.h"
#include "autograd/program.h"
#include "base/memory_account.h"
#include "dispatch/all_ops.h"
#include "ops/core/factor_rule.h"
#include "schema/op_registry.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::counted;
using test::kind_of;
using test::local_values;
using test::OpMesh;
using test::ops;
using test::plain;
using test::whole;
using Values = std::vector<double>;

// The sum over dim 1 of pieces [a, b], of which the ranks along b have a part each.
Results summed(const OnPieces& call) {
  DTensor sum = call.calls.one("aten::sum.dim_IntList", {call.args[0], Dims{1}});
  for (ProcessGroup* group : groups_of(call, 'b')) sum = all_reduce(sum, ReduceOp::kSum, *group);
  return {Argument(sum)};
}
Results itself(const OnPieces& call) { return {call.args[0]}; }
Results one_row(const OnPieces& call) {
  return {Argument(call.calls.one("aten::new_ones", {call.args[0], Dims{1, 2}}))};
}
Results nothing(const OnPieces&) { return {}; }

OpRegistry with(const char* op, const char* rule, PiecesProgram program, std::string made_up = "") {
  OpRegistry registry;
  register_all_ops(registry);
  set_factor_rule(registry, op, rule, {std::move(program), std::move(made_up)});
  return registry;
}

Error refusal(const OpRegistry& registry, const char* op, const char* placements) {
  std::optional<Error> found;
  OpMesh mesh(registry, {2});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place(placements, {4, 2}, counted(8));
    try {
      ops()(op, {x});
    } catch (const Error& error) {
      if (rank.rank == 0) found = error;
    }
  });
  REQUIRE(found);
  return *found;
}

TEST_CASE("V-26 a letter that the program makes up for leaves nothing pending, another one a sum") {
  const Values sums = {6, 22, 38};
  for (const char* made_up : {"b", ""}) {
    const OpRegistry registry =
        with("aten::sum.dim_IntList", "ab->a",
             made_up[0] != 0 ? summed : PiecesProgram([](const OnPieces& call) {
               return call.calls("aten::sum.dim_IntList", {call.args[0], Dims{1}});
             }),
             made_up);
    OpMesh mesh(registry, {2, 2});
    mesh.run([&](RankContext&) {
      const DTensor x = mesh.place("S(1) S(1)", {3, 4}, counted(12));
      const DTensor y = ops().one("aten::sum.dim_IntList", {x, Dims{1}});
      CHECK(y.spec()->has_partial() == (made_up[0] == 0));
      CHECK(whole(y) == sums);
      const DTensor z =
          ops().one("aten::sum.dim_IntList", {mesh.place("S(0) R", {3, 4}, counted(12)), Dims{1}});
      CHECK(z.spec()->placement(0).is_shard(0));
      CHECK(whole(z) == sums);
    });
  }
}

TEST_CASE("V-26 groups are those that cut the letter's dim, the first cut first") {
  std::vector<std::int64_t> sizes;
  const OpRegistry registry = with("aten::exp", "ab->ab", [&](const OnPieces& call) -> Results {
    if (current_rank().rank == 0) {
      for (ProcessGroup* group : groups_of(call, 'a')) sizes.push_back(group->size());
      sizes.push_back(-1);
      for (ProcessGroup* group : groups_of(call, 'b')) sizes.push_back(group->size());
      sizes.push_back(-2);
    }
    return call.calls("aten::exp", {call.args[0]});
  });
  OpMesh mesh(registry, {2, 3});
  mesh.run([&](RankContext&) {
    for (const char* placements : {"S(0) S(0)", "S(1) S(0)", "R R"}) {
      ops()("aten::exp", {mesh.place(placements, {7, 3}, Values(21))});
    }
  });
  CHECK(sizes == std::vector<std::int64_t>{2, 3, -1, -2, 3, -1, 2, -2, -1, -2});
}

TEST_CASE("V-26 plain tensors have the op's own kernel, and pending operands are reduced first") {
  const OpRegistry registry = with("aten::exp", "ab->ab", [](const OnPieces& call) -> Results {
    return call.calls("aten::exp", {call.args[0]});
  });
  OpMesh mesh(registry, {2});
  mesh.run([&](RankContext&) {
    CHECK(local_values(ops().one("aten::exp", {plain({1, 2}, {0, 0})})) == Values{1, 1});
    const DTensor pending = mesh.place("P(sum)", {1, 2}, {0, 0});
    CHECK(whole(ops().one("aten::exp", {pending})) == Values{1, 1});
  });
}

TEST_CASE("V-26 calls of an op's own program are neither recorded nor heard") {
  class Counting final : public ForwardingProgram {
   public:
    using ForwardingProgram::ForwardingProgram;
    Results perform(const ProgramEvent& event) override {
      ++events;
      return next().perform(event);
    }
    int events = 0;
  };
  const OpRegistry registry = with("aten::sum.dim_IntList", "ab->a", summed, "b");
  OpMesh mesh(registry, {3});
  mesh.run([&](RankContext&) {
    Counting counting(program_calls());
    const ProgramScope scope(counting);
    const DTensor x = mesh.place("S(1)", {2, 4}, counted(8));
    require_grad(x);
    counting.events = 0;
    const DTensor y = program_calls().one("aten::sum.dim_IntList", {x, Dims{1}});
    CHECK(counting.events == 1);
    backward(y, mesh.place("R", {2}, {2, 3}));
    CHECK(whole(grad_of(x)) == Values{2, 2, 2, 2, 3, 3, 3, 3});
  });
}

TEST_CASE("V-26 a result that is the operand's own memory becomes a copy") {
  const OpRegistry registry = with("aten::neg", "ab->ab", itself);
  OpMesh mesh(registry, {2});
  mesh.run([&](RankContext& rank) {
    MemoryAccount account;  // memory that counts on no account is copied when it is written to
    rank.memory = &account;
    {
      const DTensor x = mesh.place("S(0)", {2, 2}, counted(4));
      const DTensor y = ops().one("aten::neg", {x});
      ops()("aten::fill_.Scalar", {y, 9});
      CHECK(whole(x) == counted(4));
      ops()("aten::neg_", {x});
      CHECK(whole(x) == counted(4));
    }
    rank.memory = nullptr;
  });
}

TEST_CASE("V-26 in-place and out= forms take what the program gives") {
  const OpRegistry registry = with("aten::exp", "ab->ab", [](const OnPieces& call) -> Results {
    return call.calls("aten::add.Scalar", {call.args[0], 5});
  });
  OpMesh mesh(registry, {2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3, 2}, counted(6));
    const DTensor out = mesh.place("S(0)", {3, 2}, Values(6));
    ops()("aten::exp.out", {x, out});
    CHECK(whole(out) == Values{5, 6, 7, 8, 9, 10});
    ops()("aten::exp_", {x});
    CHECK(whole(x) == Values{5, 6, 7, 8, 9, 10});
    // Each element of a list by itself: as before.
    const ArgumentList list = {mesh.place("S(0)", {2, 2}, Values(4))};
    const Results results = ops()("aten::_foreach_exp", {list});
    CHECK(whole(results[0].list()[0].tensor()) == Values(4, 1));
  });
}

TEST_CASE("V-26 a program comes before a handler, where the rule decides") {
  const OpRegistry registry = with("aten::argmax", "ab->a", [](const OnPieces& call) -> Results {
    return call.calls("aten::argmin", call.args);
  });
  OpMesh mesh(registry, {2});
  mesh.run([&](RankContext&) {
    const Values values = {0, 2, 1, 5, 4, 3};
    const DTensor x = mesh.place("S(0)", {2, 3}, values);
    CHECK(whole(ops().one("aten::argmax", {x, 1})) == Values{0, 2});
    CHECK(local_values(ops().one("aten::argmax", {plain({2, 3}, values), 1})) == Values{1, 0});
  });
}

TEST_CASE("V-26 a result that is not the piece is refused with the piece's shape") {
  const Error size = refusal(with("aten::exp", "ab->ab", one_row), "aten::exp", "S(0)");
  CHECK(size.kind() == ErrorKind::kValue);
  CHECK(size.summary() ==
        "aten::exp: the local program of the rule ab->ab gave f32[1, 2] as result 0, the piece of "
        "this rank is f32[2, 2]");
  CHECK(*size.find("placements") == "self S(0)");
  CHECK(refusal(with("aten::exp", "ab->ab", nothing), "aten::exp", "S(0)").summary() ==
        "aten::exp: the local program of the rule ab->ab gave 0 results, the op has 1");
  const auto doubles = [](const OnPieces& call) -> Results {
    return call.calls("aten::_to_copy", {call.args[0], DType::kF64});
  };
  CHECK(refusal(with("aten::exp", "ab->ab", doubles), "aten::exp", "S(1)").summary() ==
        "aten::exp: the local program of the rule ab->ab gave f64[4, 1] as result 0, the piece of "
        "this rank is f32[4, 1]");
}

TEST_CASE("V-26 no program computes views, or what draws numbers") {
  OpRegistry registry;
  register_all_ops(registry);
  const auto sets = [&](const char* op) {
    return kind_of([&] { set_factor_rule(registry, op, "ab->ba", {itself, ""}); });
  };
  CHECK(sets("aten::t") == ErrorKind::kUnsupported);
  CHECK(sets("aten::bernoulli") == ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace shardlab
