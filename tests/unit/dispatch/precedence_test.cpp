// The part of a row that answers a call, and the errors on the way (D-1 to D-8, D-18 to D-22).
#include <doctest/doctest.h>

#include <stdexcept>

#include "dispatch/all_ops.h"
#include "dispatch/plain_calls.h"
#include "ops/core/meta.h"
#include "schema/op_registry.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/op_mesh.h"
#include "tests/unit/dispatch/seen.h"

namespace shardlab {
namespace {

using test::counted;
using test::kind_of;
using test::OpMesh;
using test::ops;
using test::plain;
using test::Seen;
using test::whole;
using Values = std::vector<double>;

Results twice(Calls& calls, const OpRow&, const Arguments& args) {
  return calls("aten::add.Tensor", {args[0], args[0]});
}
Results thrice(Calls& calls, const Arguments& args) {
  return calls("aten::mul.Scalar", {args[0], 3});
}
// Gets the caller's arguments, and returns a result that no op would.
Results answer(Calls&, const OpRow&, const Arguments& args) {
  return {Argument(args[0].tensor().distributed()), Argument("raw"), args[0]};
}
std::vector<RuleRow> unsupported(const RuleContext&) {
  fail(ErrorKind::kUnsupported, "not for this input");
}
std::vector<RuleRow> broken(const RuleContext&) { throw std::out_of_range("index 7"); }
std::vector<RuleRow> bad_value(const RuleContext&) { fail(ErrorKind::kValue, "a bad size"); }
MeshRuleResult no_outcome(const RuleContext&) { return {}; }
Results fails_locally(Calls&, const OpRow&, const Arguments&) {
  fail(ErrorKind::kValue, "the kernel refuses");
}
Results does_not_apply(Calls&, const Arguments&) { return {}; }

OpRow row_of(const char* name, ShardingRule rule) {
  OpRow row;
  row.op = parse_op_schema(fmt::format("my::{}(Tensor x) -> Tensor", name));
  row.meta = meta_like;
  row.rule = std::move(rule);
  row.compute = twice;
  return row;
}

const OpRegistry& registry() {
  static const OpRegistry* const made = [] {
    auto* filled = new OpRegistry;
    register_all_ops(*filled);
    filled->add(row_of("twice", PointwiseRule{"ss"}));
    OpRow handled = row_of("handled", PointwiseRule{"ss"});
    handled.compute = Handler{answer};
    filled->add(std::move(handled));
    OpRow composite = row_of("composite", PointwiseRule{"ss"});
    composite.compute = thrice;
    filled->add(composite);
    composite.op = parse_op_schema("my::both(Tensor x) -> Tensor");
    composite.compute = RuleOrParts{thrice};
    filled->add(std::move(composite));
    OpRow falls_back = row_of("falls_back", DimRuleFn{unsupported});
    falls_back.compute = RuleOrParts{thrice};
    filled->add(std::move(falls_back));
    OpRow inapplicable = row_of("inapplicable", NoRule{});
    inapplicable.compute = does_not_apply;
    filled->add(std::move(inapplicable));
    filled->add(row_of("no_rule", NoRule{}));
    filled->add(row_of("unsupported", DimRuleFn{unsupported}));
    filled->add(row_of("broken", DimRuleFn{broken}));
    filled->add(row_of("bad_value", DimRuleFn{bad_value}));
    filled->add(row_of("no_outcome", MeshRuleFn{no_outcome}));
    OpRow late = row_of("late", PointwiseRule{"ss"});
    late.compute = fails_locally;
    filled->add(std::move(late));
    filled->set_handler("aten::exp2", {answer});
    return filled;
  }();
  return *made;
}

Error error_of(const char* op, const DTensor& x) {
  try {
    ops()(op, {x});
  } catch (const Error& error) {
    return error;
  }
  FAIL("nothing was thrown");
  return {ErrorKind::kInternal, ""};
}

TEST_CASE("D-1 every call with a DTensor passes the dispatcher, a plain one does not") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext& rank) {
    const DTensor x = mesh.place("S(0)", {4}, counted(4));
    const DTensor out = mesh.place("R", {4}, counted(4));
    const Seen seen;
    const std::int64_t step = rank.step;
    ops()("aten::neg", {x});
    ops()("aten::cat", {ArgumentList{x, x}});
    ops()("aten::add.out", {plain({1, 1}, {1}), plain({1, 1}, {1}), 1, out});
    ops()("aten::neg", {plain({4}, counted(4))});
    CHECK(seen.ops == std::vector<std::string>{"aten::neg", "aten::cat", "aten::add.out"});
    CHECK(rank.step == step + 4);
  });
}

TEST_CASE("D-2 a handler comes first, gets the raw arguments, and its results are the op's") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4}, counted(4));
    const Results results = ops()("my::handled", {x});
    REQUIRE(results.size() == 3);
    CHECK(results[0].to_bool());
    CHECK(results[1].string() == "raw");
    CHECK(results[2].tensor().is_same(x));
  });
}

TEST_CASE("D-2 parts are taken before a rule, unless the row says that its rule is asked first") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    const Seen seen;
    CHECK(whole(ops().one("my::composite", {x})) == Values{3, 6, 9});
    CHECK(seen.ops == std::vector<std::string>{"aten::mul.Scalar"});
    CHECK(whole(ops().one("my::both", {x})) == Values{3, 6, 9});
    CHECK(seen.ops.back() == "my::both");
  });
}

TEST_CASE("D-2 a call above the tape and one below it are decided by the same rule") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    for (Calls* calls : {&recording_calls(), &plain_calls()}) {
      const Seen seen;
      calls->one("my::both", {x});
      calls->one("my::falls_back", {x});
      CHECK(seen.ops == std::vector<std::string>{"my::both", "aten::mul.Scalar"});
    }
  });
}

TEST_CASE("D-3 equal, is_same_size, convolutions, the scaler's check and item have handlers") {
  for (const char* name :
       {"aten::equal", "aten::is_same_size", "aten::convolution", "aten::convolution_backward",
        "aten::_amp_foreach_non_finite_check_and_unscale_", "aten::_local_scalar_dense"}) {
    CAPTURE(name);
    CHECK(std::holds_alternative<Handler>(registry().at(name).compute));
  }
  CHECK_FALSE(std::holds_alternative<Handler>(registry().at("aten::add.Tensor").compute));
}

TEST_CASE("D-4 X-40 rows that draw say so; the ten overloads of the reference are among them") {
  for (const char* name : {"aten::normal_", "aten::rand_like", "aten::randn_like",
                           "aten::randint_like", "aten::randint_like.low_dtype", "aten::uniform_",
                           "aten::bernoulli", "aten::bernoulli_.float", "aten::native_dropout"}) {
    CAPTURE(name);
    CHECK(registry().at(name).has(kRandom));
  }
  CHECK_FALSE(registry().at("aten::zeros_like").has(kRandom));
}

TEST_CASE("D-5 a handler is an overload's own") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {2}, {1, 2});
    const DTensor out = mesh.place("S(0)", {2}, {0, 0});
    CHECK(ops()("aten::exp2", {x}).size() == 3);
    ops()("aten::exp2.out", {x, out});
    CHECK(whole(out) == Values{2, 4});
  });
}

TEST_CASE("D-6 D-7 B-3 plain tensors are refused until a rank asks for them, for that rank alone") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext& rank) {
    CHECK(rank.mixed == MixedTensors::kRefuse);
    if (rank.rank == 1) rank.mixed = MixedTensors::kReplicate;
    const DTensor x = mesh.place("R", {2}, {1, 2});
    const auto add = [&] { ops()("aten::add.Tensor", {x, plain({2}, {1, 1})}); };
    if (rank.rank == 0) {
      CHECK(kind_of(add) == ErrorKind::kRuntime);
    } else {
      add();
    }
    rank.mixed = MixedTensors::kRefuse;
    CHECK(kind_of(add) == ErrorKind::kRuntime);
  });
}

TEST_CASE("D-8 with the flag plain tensors of any size count as replicas, equal or not") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext& rank) {
    rank.mixed = MixedTensors::kReplicate;
    const DTensor x = mesh.place("S(0)", {3, 2}, Values(6, 1));
    const double own = static_cast<double>(rank.rank);
    const DTensor sum = ops().one("aten::add.Tensor", {x, plain({3, 2}, Values(6, own))});
    CHECK(sum.spec()->placement(0) == Placement::shard(0));
    CHECK(read_doubles(sum.local()) == Values(rank.rank == 0 ? 4 : 2, 1 + own));
  });
}

TEST_CASE("D-18 a rule that leaves the outcome out is a defect of the rule") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {2}, {1, 2});
    CHECK(error_of("my::no_outcome", x).kind() == ErrorKind::kInternal);
  });
}

TEST_CASE("D-19 the decomposition runs on the original arguments if no rule takes the call") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {3}, {1, 2, 3});
    const Seen seen;
    CHECK(whole(ops().one("my::falls_back", {x})) == Values{3, 6, 9});
    CHECK(seen.ops.front() == "aten::mul.Scalar");
    CHECK(error_of("my::inapplicable", x).kind() == ErrorKind::kInternal);
  });
}

TEST_CASE("D-20 K-33 unsupported without a decomposition stays unsupported") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {2}, {1, 2});
    const Error raised = error_of("my::unsupported", x);
    CHECK(raised.kind() == ErrorKind::kUnsupported);
    CHECK(raised.summary() == "not for this input");
    const Error missing = error_of("my::no_rule", x);
    CHECK(missing.kind() == ErrorKind::kUnsupported);
    CHECK(missing.summary().find("my::no_rule") != std::string::npos);
  });
}

TEST_CASE(
    "D-21 X-45 a foreign exception in a rule is wrapped, ours gains the call and keeps its kind") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {2}, {1, 2});
    const Error wrapped = error_of("my::broken", x);
    CHECK(wrapped.kind() == ErrorKind::kRuntime);
    REQUIRE(wrapped.cause() != nullptr);
    CHECK(wrapped.cause()->summary() == "index 7");
    REQUIRE(wrapped.find("op") != nullptr);
    CHECK(*wrapped.find("op") == "my::broken(x f32[2@m0])");
    const Error own = error_of("my::bad_value", x);
    CHECK(own.kind() == ErrorKind::kValue);
    REQUIRE(own.find("op") != nullptr);
    CHECK(*own.find("op") == "my::bad_value(x f32[2@m0])");
  });
}

TEST_CASE("D-22 errors after propagation are passed on") {
  OpMesh mesh(registry(), {2});
  mesh.run([&](RankContext&) {
    const Error error = error_of("my::late", mesh.place("S(0)", {2}, {1, 2}));
    CHECK(error.kind() == ErrorKind::kValue);
    CHECK(error.summary() == "the kernel refuses");
    CHECK(error.cause() == nullptr);
  });
}

// Beside PyTorch 2.15: the scale and the count of steps after each of these.
TEST_CASE("D-62 the scale of a loss grows after so many finite steps, and shrinks at another") {
  const Values cases[] = {{65536, 0, 0, 65536, 1},
                          {65536, 0, 1, 32768, 0},
                          {4, 1, 0, 8, 0},
                          {3e38, 1, 0, static_cast<double>(3e38F), 0}};
  OpMesh({1}).run([&](RankContext&) {
    for (const Values& one : cases) {
      const DTensor scale = plain({1}, {one[0]}), found_inf = plain({1}, {one[2]});
      const DTensor tracker =
          ops()("aten::_to_copy", {plain({1}, {one[1]}), DType::kI32})[0].tensor();
      const Results same =
          ops()("aten::_amp_update_scale_", {scale, tracker, found_inf, 2.0, 0.5, 2});
      CHECK(same[0].tensor().is_same(scale));
      CHECK(read_doubles(scale.local())[0] == one[3]);
      CHECK(read_doubles(tracker.local())[0] == one[4]);
    }
  });
}

}  // namespace
}  // namespace shardlab
