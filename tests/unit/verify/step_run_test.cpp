// Calls on ranks, judged: right calls of every kind, and every kind of mistake at its call.
#include "sim/verify/step_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "dispatch/all_ops.h"
#include "schema/call_record.h"
#include "schema/meta_args.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "schema/sharding_rule.h"
#include "sim/world/devices.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using test::counted;
using test::OpMesh;
using test::ops;
using test::plain;
using test::whole;
using Values = std::vector<double>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Hears nothing, or spoils the result of a call on one rank.
class Spoiler : public Observer {
 public:
  using Spoil = std::function<void(const CallRecord& call)>;
  explicit Spoiler(Spoil spoil = {}) : spoil_(std::move(spoil)) {}
  void call_ends(const CallRecord& call) override {
    if (spoil_) spoil_(call);
  }
  void op_begins(const OpSchema&, const OutputSharding&) override {}
  void op_ends() override {}
  void redistribution(const RedistributionRecord&) override {}
  void collective(const CollectiveRecord&) override {}

 private:
  Spoil spoil_;
};

using Body = std::function<void(OpMesh& mesh, RankContext& rank)>;
using SpoilRank = std::function<void(std::int64_t rank, const CallRecord& call)>;

StepVerdict judged(OpMesh& mesh, const Body& body, const SpoilRank& spoil = {}) {
  Steps steps({.ranks = mesh.layout()->size(),
               .propagator = &mesh.propagator(),
               .device = make_device({}, "threads")});
  mesh.run([&](RankContext& rank) {
    Spoiler next([&](const CallRecord& call) {
      if (spoil) spoil(rank.rank, call);
    });
    rank.observer = &steps.listen(rank.rank, &next);
    rank.mode |= kModeObserve;
    rank.position = {"program", 1, 0};
    body(mesh, rank);
    steps.finish(rank.rank);
    rank.mode &= ~static_cast<std::uint32_t>(kModeObserve);
    rank.observer = nullptr;
  });
  return steps.verdict();
}

void at_line(RankContext& rank, std::int32_t line) { rank.position.line = line; }

TEST_CASE(
    "B-13 pointwise calls and moves are right bit for bit, uneven and empty pieces included") {
  OpMesh mesh({4});
  const StepVerdict verdict = judged(mesh, [](OpMesh& on, RankContext&) {
    const DTensor x = on.place("S(0)", {7, 3}, counted(21));
    const DTensor y = on.place("S(0)", {1, 3}, counted(3));
    const DTensor sum = ops().one("aten::add.Tensor", {x, y});
    ops().one("aten::exp", {sum});
    ops().one("aten::t", {sum});
    ops().redistribute(sum, Placements{Placement::shard(1)});
  });
  CHECK(verdict.calls() == verdict.bitwise);
  CHECK(verdict.bitwise >= 6);
  CHECK(verdict.skipped.empty());
  CHECK_FALSE(verdict.wrong);
  CHECK_FALSE(verdict.left);
}

TEST_CASE("a product over a cut dim is right within its bound, its sum is, too") {
  OpMesh mesh({3});
  const StepVerdict verdict = judged(mesh, [](OpMesh& on, RankContext&) {
    Values thirds;
    for (int i = 0; i < 35; ++i) thirds.push_back((i - 17) / 3.0);
    const DTensor a = on.place("S(1)", {5, 7}, thirds);
    const DTensor b = on.place("S(0)", {7, 5}, thirds);
    const DTensor product = ops().one("aten::mm", {a, b});
    CHECK(product.spec()->placement(0).is_partial());
    ops().redistribute(product, Placements{Placement::replicate()});
  });
  CHECK(verdict.bounded == 2);
  CHECK_FALSE(verdict.wrong);
}

TEST_CASE("B-13 a wrong rule is found at its call, with who holds the element") {
  OpRegistry wrong_rules;
  register_all_ops(wrong_rules);
  wrong_rules.set_rule("aten::relu", PointwiseRule{"ss"});  // relu of terms is no term of relu
  OpMesh mesh(wrong_rules, {2});
  const StepVerdict verdict = judged(mesh, [](OpMesh& on, RankContext& rank) {
    const DTensor a = on.place("S(1)", {1, 2}, {1, 1});
    const DTensor b = on.place("S(0)", {2, 1}, {3, -2});
    at_line(rank, 7);
    const DTensor product = ops().one("aten::mm", {a, b});
    at_line(rank, 8);
    ops().one("aten::relu", {product});
  });
  // relu(3) + relu(-2) is 3, relu(3 - 2) is 1.
  CHECK(verdict.wrong_calls == 1);
  REQUIRE(verdict.wrong);
  CHECK(verdict.wrong->place.op == "aten::relu");
  CHECK(verdict.wrong->place.position.line == 8);
  CHECK(verdict.wrong->got == 3);
  CHECK(verdict.wrong->expected == 1);
  CHECK(verdict.wrong->held_by == "ranks 0,1 at [0, 0]");
}

TEST_CASE(
    "a call whose result changed on one rank is wrong, later calls on what it left are right") {
  OpMesh mesh({2});
  const auto spoil = [](std::int64_t rank, const CallRecord& call) {
    if (rank != 1 || call.row->name() != "aten::exp") return;
    write_doubles(call.results->front().tensor().local(), Values{1, 2});
  };
  const StepVerdict verdict = judged(
      mesh,
      [](OpMesh& on, RankContext& rank) {
        const DTensor x = on.place("S(0)", {2, 2}, {0, 0, 0, 0});
        at_line(rank, 4);
        const DTensor y = ops().one("aten::exp", {x});
        at_line(rank, 5);
        ops().one("aten::neg", {y});
      },
      spoil);
  CHECK(verdict.wrong_calls == 1);
  REQUIRE(verdict.wrong);
  CHECK(verdict.wrong->place.op == "aten::exp");
  CHECK(verdict.wrong->place.position.line == 4);
  CHECK(verdict.wrong->element == 3);
  CHECK(verdict.wrong->got == 2);
  CHECK(verdict.wrong->expected == 1);
  CHECK(verdict.wrong->wrong_elements == 1);
  CHECK(verdict.wrong->held_by == "rank 1 at [1, 1]");
}

// One column after the other, so that every addition is rounded to the dtype.
Results column_by_column(Calls& calls, const OpRow&, const Arguments& args) {
  const Argument none = calls.one("aten::slice.Tensor", {args[0], 1, 0, 0});
  DTensor total = calls.one("aten::sum.dim_IntList", {none, Dims{1}});
  for (std::int64_t i = 0; i < args[0].tensor().local().size(1); ++i) {
    total = calls.one("aten::add.Tensor", {total, calls.one("aten::select.int", {args[0], 1, i})});
  }
  return {total};
}
OutputMetas shape_of_rows(const MetaArgs& args) {
  return {{contiguous_meta(Dims{args.tensor(0)->shape[0]}, args.tensor(0)->dtype)}};
}
std::vector<RuleRow> terms_by_column(const RuleContext&) {
  return {{{RulePlacement::of(Placement::partial())}, {RulePlacement::any(1)}}};
}

// 251 times -1, 50 times 1, 300 times 1. Alone no sum leaves the range that bf16 has exactly; the
// second of two ranks adds up ones, of which those above 256 are lost: 44 of 300.
Values steps_to_99() {
  Values values(601, 1);
  std::fill_n(values.begin(), 251, -1);
  return values;
}

TEST_CASE("B-13 a program over ops may round after each of them") {
  OpRegistry registry;
  register_all_ops(registry);
  OpRow row;
  row.op = parse_op_schema("my::column_by_column(Tensor x) -> Tensor");
  row.meta = shape_of_rows;
  row.rule = terms_by_column;
  row.compute = column_by_column;
  registry.add(std::move(row));
  OpMesh mesh(registry, {2});
  const StepVerdict verdict = judged(mesh, [](OpMesh& on, RankContext&) {
    const DTensor x = on.place("S(1)", {1, 601}, steps_to_99(), DType::kBF16);
    const DTensor y = ops().one("my::column_by_column", {x});
    CHECK(whole(y) == Values{55});  // -201 + 256
    ops().one("my::column_by_column", {on.place("S(1)", {2, 1}, {3, 4}, DType::kBF16)});
  });
  CHECK_FALSE(verdict.wrong);
  CHECK(verdict.skipped.empty());
}

TEST_CASE("B-13 replicas that differ are an error where they first do, and name the ranks") {
  OpMesh mesh({3});
  const auto spoil = [](std::int64_t rank, const CallRecord& call) {
    if (rank != 2 || call.row->name() != "aten::exp") return;
    write_doubles(call.results->front().tensor().local(), Values{1.5});
  };
  const StepVerdict verdict = judged(
      mesh,
      [](OpMesh& on, RankContext& rank) {
        const DTensor x = on.place("R", {1}, {0});
        at_line(rank, 2);
        const DTensor y = ops().one("aten::exp", {x});
        at_line(rank, 3);
        ops().one("aten::neg", {y});
      },
      spoil);
  REQUIRE(verdict.wrong);
  CHECK(verdict.wrong->unequal_replicas);
  CHECK(verdict.wrong->what == "ranks 0 and 2 hold different replicas");
  CHECK(verdict.wrong->place.position.line == 2);
}

TEST_CASE("a label that the program flips shows where its replicas differ") {
  OpMesh mesh({2});
  const StepVerdict verdict = judged(mesh, [](OpMesh& on, RankContext& rank) {
    const DTensor mine = plain({2}, {1.0 + static_cast<double>(rank.rank), 5});
    at_line(rank, 9);
    from_local(mine, on.layout(), Placements{Placement::replicate()});
  });
  REQUIRE(verdict.left);
  CHECK(verdict.left->op == "from_local");
  REQUIRE(verdict.wrong);
  CHECK(verdict.wrong->place.position.line == 9);
  CHECK(verdict.wrong->unequal_replicas);
}

TEST_CASE("in-place calls are judged by what they leave") {
  OpMesh mesh({2});
  const Body body = [](OpMesh& on, RankContext&) {
    const DTensor x = on.place("S(0)", {3, 2}, counted(6));
    const DTensor view = ops().one("aten::t", {x});
    ops().one("aten::mul_.Scalar", {view, 2.0});
    ops().one("aten::neg", {x});
  };
  CHECK_FALSE(judged(mesh, body).wrong);
  const auto spoil = [](std::int64_t rank, const CallRecord& call) {
    if (rank != 0 || call.row->name() != "aten::mul_.Scalar") return;
    const Tensor written = call.results->front().tensor().local();
    write_doubles(written, Values(static_cast<std::size_t>(written.numel()), 7));
  };
  const StepVerdict verdict = judged(mesh, body, spoil);
  REQUIRE(verdict.wrong);
  CHECK(verdict.wrong->place.op == "aten::mul_.Scalar");
}

TEST_CASE("sums of small integers wrap; a lost term is wrong in every bit") {
  OpMesh mesh({2});
  const Body body = [](OpMesh& on, RankContext&) {
    const DTensor x = on.place("S(0)", {4}, {200, 100, 50, 30}, DType::kU8);
    const DTensor y = ops().one("aten::mul.Tensor", {x, x});
    ops().redistribute(y, Placements{Placement::replicate()});
  };
  CHECK_FALSE(judged(mesh, body).wrong);
}

TEST_CASE("the first call that makes a NaN or an infinity is told") {
  OpMesh mesh({2});
  const StepVerdict verdict = judged(mesh, [](OpMesh& on, RankContext& rank) {
    const DTensor x = on.place("S(0)", {3}, {0, 1, 2});
    at_line(rank, 3);
    const DTensor y = ops().one("aten::log", {x});  // log 0
    at_line(rank, 4);
    ops().one("aten::mul.Tensor", {y, x});  // -inf * 0
  });
  REQUIRE(verdict.non_finite);
  CHECK(verdict.non_finite->op == "aten::log");
  CHECK(verdict.non_finite->position.line == 3);
  CHECK_FALSE(verdict.wrong);
}

TEST_CASE("an index that rounding of pending sums decides is undecided, others are exact") {
  OpMesh mesh({3});
  const Body body = [](OpMesh& on, RankContext& rank) {
    // Terms of three ranks: 0.1 + 0.2 + 0.3 in either order of two columns that are equal up to
    // rounding, and a third row that is decided.
    const std::int64_t r = rank.rank;
    const double a[] = {0.1, 0.2, 0.3}, b[] = {0.3, 0.2, 0.1};
    const DTensor mine = plain({2, 2}, {a[r], b[r], 1, 0});
    const DTensor x = from_local(mine, on.layout(), Placements{Placement::partial()});
    ops().one("aten::argmax", {x, 1, false});
  };
  const StepVerdict verdict = judged(mesh, body);
  CHECK_FALSE(verdict.wrong);
  CHECK(verdict.undecided_elements <= 1);
}

TEST_CASE("random ops are judged by the stream they draw from") {
  OpMesh mesh({2});
  const Body body = [](OpMesh& on, RankContext&) {
    const DTensor x = on.place("S(0)", {5}, counted(5));
    ops().one("aten::rand_like", {x});
    ops()("aten::native_dropout", {x, 0.5, true});
  };
  const StepVerdict right = judged(mesh, body);
  CHECK(right.bitwise == right.calls());
  CHECK(right.skipped.empty());
}

TEST_CASE("ranks that pass different numbers are not one program") {
  OpMesh mesh({2});
  const StepVerdict verdict = judged(mesh, [](OpMesh& on, RankContext& rank) {
    const DTensor x = on.place("S(0)", {4}, counted(4));
    ops().one("aten::mul.Scalar", {x, static_cast<double>(rank.rank)});
  });
  CHECK_FALSE(verdict.wrong);
  CHECK(verdict.skipped.size() == 1);
}

TEST_CASE("calls beyond the memory that is given are not judged") {
  OpMesh mesh({2});
  Steps steps({.ranks = 2,
               .propagator = &mesh.propagator(),
               .device = make_device({}, "threads"),
               .most_bytes = 8});
  mesh.run([&](RankContext& rank) {
    Spoiler next;
    rank.observer = &steps.listen(rank.rank, &next);
    rank.mode |= kModeObserve;
    ops().one("aten::neg", {mesh.place("S(0)", {64}, counted(64))});
    steps.finish(rank.rank);
    rank.mode &= ~static_cast<std::uint32_t>(kModeObserve);
  });
  CHECK(steps.verdict().calls() == 0);
  CHECK(steps.verdict().skipped.size() == 1);
}

}  // namespace
}  // namespace shardlab
