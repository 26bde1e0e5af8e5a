// Kinds of planners and their moves (R-1 to R-43), as far as no table of recorded plans has them.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "plan/successors.h"
#include "tests/unit/plan/plan_support.h"

namespace shardlab {
namespace {

using test::placements;
using test::SpecMaker;
using test::step_text;

const Plan& graph_plan(PlanResult& keep, const DTensorSpec* from, const DTensorSpec* to) {
  keep = plan_graph(*from, *to, CostModel::kFixed, PlanOptions{.rules = PlanRules::kSeed});
  return std::get<Plan>(keep);
}

// "S(0)R>S(1)R 1" for every change of one kind out of a state of two tensor dims.
std::string changes(const PlanState& state, StepKind kind, std::size_t tensor_dims = 2) {
  EdgeRules rules;
  rules.tensor_dims = tensor_dims;
  rules.to_partial = {ReduceOp::kSum};
  rules.rules = PlanRules::kSeed;
  std::string text;
  for (const Change& change : successors(state, rules)) {
    if (step_kind(state.placements[change.mesh_dim], change.to) != kind) continue;
    PlanState next = state;
    advance(next, change.mesh_dim, change.to);
    text += (text.empty() ? "" : " ") + order_text(next.placements, next.order);
  }
  return text;
}

TEST_CASE("R-1 R-33 a greedy step sees the global shape cut by the source's outer shards") {
  SpecMaker spec({2, 2}, {7, 3});
  PlanResult result = plan_greedy(*spec("S(0) S(1)"), *spec("R R"), PlanRules::kV2_15);
  const Plan& plan = std::get<Plan>(result);
  CHECK(step_text(plan, {0, 0}) == "m1: S(1)->R [4,3]; m0: S(0)->R [7,3]");
  CHECK(step_text(plan, {1, 0}) == "m1: S(1)->R [3,3]; m0: S(0)->R [7,3]");
}

TEST_CASE(
    "R-4 R-43 R-7 X-44 a plan is remembered for the layout; what a rank sees is derived from it") {
  SpecMaker spec({2}, {3});
  PlanCache plans{PlanOptions{}, 8};
  const InUse<Plan> plan = plans.find(spec("S(0)"), spec("R"));
  CHECK(&*plan == &*plans.find(spec("S(0)"), spec("R")));
  SpecMaker nested({2, 2}, {5});
  const Plan cut_twice = *plans.find(nested("S(0) S(0)"), nested("R R"));
  CHECK(logical_shape(cut_twice, 0, {0, 0}) == Dims{3});
  CHECK(logical_shape(cut_twice, 0, {1, 0}) == Dims{2});
}

TEST_CASE("R-5 a plan of one layout is never given for another of equal shape") {
  SpecMaker a({2}, {4}), b({2}, {4});
  PlanCache plans{PlanOptions{}, 8};
  const InUse<Plan> of_a = plans.find(a("S(0)"), a("R"));
  const InUse<Plan> of_b = plans.find(b("S(0)"), b("R"));
  CHECK(&*of_a != &*of_b);
  CHECK(of_b->source->layout() == &b.layout());
}

TEST_CASE("R-6 X-29 emptying the cache empties plans of every planner") {
  SpecMaker spec({2}, {4});
  PlanCache plans{PlanOptions{}, 8};
  plans.find(spec("S(0)"), spec("R"), PlannerKind::kGreedy);
  plans.find(spec("S(0)"), spec("R"), PlannerKind::kGraph);
  CHECK(plans.stats().entries == 2);
  plans.clear();
  CHECK(plans.stats().entries == 0);
}

TEST_CASE("weights of the user's own choose another path; those below zero are refused") {
  Arena arena;
  const MeshLayout* layout = arena.layout({{2, 2}, {}, {}});
  const TensorMeta meta = contiguous_meta(Dims{8, 8}, DType::kF32);
  const DTensorSpec* from =
      arena.spec(layout, {Placement::shard(0), Placement::partial(ReduceOp::kSum)}, meta);
  const DTensorSpec* to = arena.spec(layout, {Placement::shard(0), Placement::replicate()}, meta);
  const auto kinds = [&](std::optional<StepWeights> weights) {
    PlanOptions options;
    options.weights = weights;
    std::vector<StepKind> found;
    const PlanResult result = plan_graph(*from, *to, CostModel::kFixed, options);
    for (const PlanStep& step : std::get<Plan>(result).steps) found.push_back(step.kind);
    return found;
  };
  // An all-reduce of 4 or a reduce-scatter and an all-gather of 2 each: the shorter path wins.
  CHECK(kinds(std::nullopt) == kinds(StepWeights{}));
  CHECK(kinds(StepWeights{.all_reduce = 1}) == std::vector{StepKind::kAllReduce});
  CHECK(kinds(StepWeights{.all_reduce = 9}) ==
        std::vector{StepKind::kReduceScatter, StepKind::kAllGather});
  CHECK_THROWS_AS(kinds(StepWeights{.all_gather = -1}), Error);
  CHECK_THROWS_AS(kinds(StepWeights{.all_gather = NAN}), Error);
}

TEST_CASE("R-8 weights: all-to-all 1, gather and reduce-scatter 2, all-reduce 4, local steps 0") {
  CHECK(StepWeights{}.of(StepKind::kAllToAll) == 1);
  CHECK(StepWeights{}.of(StepKind::kAllGather) == 2);
  CHECK(StepWeights{}.of(StepKind::kReduceScatter) == 2);
  CHECK(StepWeights{}.of(StepKind::kAllReduce) == 4);
  CHECK(StepWeights{}.of(StepKind::kChunk) == 0);
  CHECK(StepWeights{}.of(StepKind::kToPartial) == 0);
}

TEST_CASE("R-9 states are equal when placements and order are") {
  const PlanState state{placements("S(0) S(0)"), {0, 1}};
  CHECK(state == PlanState{placements("S(0) S(0)"), {0, 1}});
  CHECK_FALSE(state == PlanState{placements("S(0) S(0)"), {1, 0}});
  CHECK_FALSE(state == PlanState{placements("S(0) R"), {0, -1}});
}

TEST_CASE("R-10 an order is the mesh dims of each tensor dim, and back") {
  const Placements held = placements("S(1) S(0) R S(1)");
  const ShardOrder order = {1, 0, -1, 0};
  CHECK(cutting_order(held, order, 0) == InlineVector<std::size_t, 4>{1});
  CHECK(cutting_order(held, order, 1) == InlineVector<std::size_t, 4>{3, 0});
  CHECK(cutting_order(held, order, 2).empty());
  ShardOrder back(held.size(), -1);
  for (const std::int64_t dim : {0, 1}) {
    std::int32_t place = 0;
    for (const std::size_t mesh_dim : cutting_order(held, order, dim)) back[mesh_dim] = place++;
  }
  CHECK(back == order);
}

TEST_CASE(
    "R-11 R-12 R-28 only the last cut of a tensor dim moves or is undone; it is appended last") {
  const PlanState nested{placements("S(0) S(0) S(1)"), {0, 1, 0}};
  CHECK(changes(nested, StepKind::kAllToAll) == "S(0)S(1)[1]S(1)[0] S(0)[0]S(0)[1]S(0)[2]");
  CHECK(changes(nested, StepKind::kAllGather) == "S(0)RS(1) S(0)[0]S(0)[1]R");
}

TEST_CASE(
    "R-13 R-15 R-18 R-19 any partial reduces or scatters, mesh dims ascending, then tensor dims") {
  const PlanState state{placements("P(max) S(0) P(sum)"), {-1, 0, -1}};
  CHECK(changes(state, StepKind::kAllReduce) == "RS(0)P(sum) P(max)S(0)R");
  CHECK(changes(state, StepKind::kReduceScatter) ==
        "S(0)[1]S(0)[0]P(sum) S(1)S(0)P(sum) P(max)S(0)[0]S(0)[1] P(max)S(0)S(1)");
}

TEST_CASE("R-14 R-16 a replica is cut along any dim, or becomes terms of a sum") {
  const PlanState state{placements("R S(0)"), {-1, 0}};
  CHECK(changes(state, StepKind::kChunk) == "S(0)[1]S(0)[0] S(1)S(0)");
  CHECK(changes(state, StepKind::kToPartial) == "P(sum)S(0)");
}

TEST_CASE("R-17 every successor changes one mesh dim, no two are alike") {
  EdgeRules rules;
  rules.tensor_dims = 3;
  rules.to_partial = {ReduceOp::kSum};
  const PlanState state{placements("S(0) R P(sum) S(0)"), {1, -1, -1, 0}};
  std::set<std::string> seen;
  for (const Change& change : successors(state, rules)) {
    PlanState next = state;
    advance(next, change.mesh_dim, change.to);
    std::size_t changed = 0;
    for (std::size_t i = 0; i < 4; ++i) changed += next.placements[i] != state.placements[i];
    CHECK(changed == 1);
    CHECK(seen.insert(order_text(next.placements, next.order)).second);
  }
  CHECK(seen.size() == 3 * 1 - 1 + 1 + 1 + 3 + 1 + 3);
}

TEST_CASE("R-20 a tensor without dims is only reduced, or made into terms") {
  const PlanState state{placements("P(sum) R"), {-1, -1}};
  CHECK(changes(state, StepKind::kAllReduce, 0) == "RR");
  CHECK(changes(state, StepKind::kToPartial, 0) == "P(sum)P(sum)");
  CHECK(changes(state, StepKind::kChunk, 0).empty());
  CHECK(changes(state, StepKind::kReduceScatter, 0).empty());
}

TEST_CASE("R-21 uneven dims take the path of even ones") {
  SpecMaker even({2, 2}, {8, 8}), uneven({2, 2}, {5, 3});
  PlanResult a, b;
  CHECK(graph_plan(a, even("S(0) S(0)"), even("S(1) S(0)")).text() ==
        graph_plan(b, uneven("S(0) S(0)"), uneven("S(1) S(0)")).text());
}

TEST_CASE("R-22 R-25 the first of equally cheap paths is taken, however long") {
  SpecMaker spec({2, 2}, {8, 8});
  PlanResult keep;
  // Both orders of cutting cost nothing; the target's own order decides.
  CHECK(graph_plan(keep, spec("R R"), spec("S(0) S(1)")).text() == "RR->S(0)R->S(0)S(1)");
  CHECK(graph_plan(keep, spec("R R"), spec("S(0) S(0)", {{0, {1, 0}}})).text() ==
        "RR->RS(0)->S(0)[1]S(0)[0]");
}

TEST_CASE("R-29 R-30 a graph plan has a step for every mesh dim that changes, one at a time") {
  SpecMaker spec({2, 2}, {8, 8});
  PlanResult keep;
  const Plan& plan = graph_plan(keep, spec("S(0) S(1)"), spec("S(1) S(0)"));
  PlanState state = first_state(plan);
  for (const PlanStep& step : plan.steps) {
    REQUIRE(step.mesh_dims.size() == 1);
    CHECK(state.placements[step.mesh_dims[0]] == step.from);
    advance(state, step.mesh_dims[0], step.to);
    CHECK(state.placements == step.after);
  }
  CHECK(state.placements == plan.target->placements());
}

TEST_CASE("R-31 X-28 X-32 both planners reach a pending sum from a shard") {
  SpecMaker spec({2}, {4});
  PlanResult greedy = plan_greedy(*spec("S(0)"), *spec("P(sum)"), PlanRules::kV2_15);
  CHECK(std::get<Plan>(greedy).text() == "S(0)->P(sum)");
  PlanResult keep;
  CHECK(graph_plan(keep, spec("S(0)"), spec("P(sum)")).text() == "S(0)->R->P(sum)");
}

TEST_CASE("R-32 X-33 one mesh dim: one step over the global shape") {
  SpecMaker spec({4}, {5, 3});
  PlanResult result = plan_greedy(*spec("S(0)"), *spec("S(1)"), PlanRules::kSeed);
  CHECK(step_text(std::get<Plan>(result), {2}) == "m0: S(0)->S(1) [5,3]");
  PlanResult same = plan_greedy(*spec("R"), *spec("R"), PlanRules::kSeed);
  CHECK(step_text(std::get<Plan>(same), {2}) == "m0: R->R [5,3]");
}

TEST_CASE("R-35 outer mesh dims first where nothing was cut") {
  SpecMaker spec({2, 2}, {8, 8});
  PlanResult result = plan_greedy(*spec("P P"), *spec("S(0) S(0)"), PlanRules::kV2_15);
  CHECK(step_text(std::get<Plan>(result), {0, 0}) ==
        "m0: P(sum)->S(0) [8,8]; m1: P(sum)->S(0) [8,8]");
}

TEST_CASE("R-37 R-39 greedy knows no orders, so swapped ones go to the graph planner") {
  SpecMaker spec({2, 2}, {8, 8});
  const DTensorSpec *swapped = spec("S(0) S(0)", {{0, {1, 0}}}), *whole = spec("R R");
  PlanResult ignored = plan_greedy(*swapped, *whole, PlanRules::kV2_15);
  PlanResult straight = plan_greedy(*spec("S(0) S(0)"), *whole, PlanRules::kV2_15);
  CHECK(step_text(std::get<Plan>(ignored), {0, 0}) == step_text(std::get<Plan>(straight), {0, 0}));
  PlanResult chosen = make_plan(*swapped, *whole, PlanOptions{});
  CHECK(std::get<Plan>(chosen).planner == PlannerKind::kGraph);
}

TEST_CASE("R-38 M-9 every spec has an order, the default one where none is given") {
  SpecMaker spec({2, 2}, {8, 8});
  CHECK(spec("S(0) S(0)")->order() == ShardOrder{0, 1});
  CHECK(spec("R R")->order() == ShardOrder{-1, -1});
  CHECK(spec("S(0) S(0)")->has_default_order());
}

TEST_CASE("R-40 a planner walks as many tensor dims as the source has") {
  SpecMaker line({2, 2}, {8}), plane({2, 2}, {8, 8});
  PlanResult keep;
  // With a second dim the swap takes the detour through it.
  CHECK(graph_plan(keep, line("S(0) S(0)", {{0, {1, 0}}}), line("S(0) S(0)")).text().find("S(1)") ==
        std::string::npos);
  CHECK(
      graph_plan(keep, plane("S(0) S(0)", {{0, {1, 0}}}), plane("S(0) S(0)")).text().find("S(1)") !=
      std::string::npos);
}

TEST_CASE("R-42 planning on request goes past the cache") {
  SpecMaker spec({2}, {4});
  const PlanCache plans{PlanOptions{}, 8};
  make_plan(*spec("S(0)"), *spec("R"), plans.options());
  CHECK(plans.stats().entries == 0);
  CHECK(plans.stats().misses == 0);
}

}  // namespace
}  // namespace shardlab
