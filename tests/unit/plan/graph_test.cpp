#include <doctest/doctest.h>
#include <fmt/format.h>

#include <memory>

#include "plan/graph.h"
#include "plan/successors.h"
#include "tests/unit/plan/plan_support.h"

namespace shardlab {
namespace {

using test::OrderByDim;
using test::SpecMaker;

struct Priced {
  double cost;
  std::string path;
};

Priced fixed(const DTensorSpec* from, const DTensorSpec* to) {
  const PlanResult result =
      plan_graph(*from, *to, CostModel::kFixed, PlanOptions{.rules = PlanRules::kSeed});
  const Plan& plan = std::get<Plan>(result);
  double cost = 0;
  for (const PlanStep& step : plan.steps) cost += StepWeights{}.of(step.kind);
  return {cost, plan.text()};
}

TEST_CASE("W-3 graph plans with the seed's weights on (2,2)") {
  const OrderByDim swapped = {{0, {1, 0}}};
  struct Row {
    std::size_t tensor_dims;
    const char* from;
    OrderByDim from_order;
    const char* to;
    OrderByDim to_order;
    double cost;
    const char* path;
  };
  const Row rows[] = {
      {2, "S(0) S(0)", {}, "R S(0)", {}, 4, "S(0)[0]S(0)[1]->S(0)S(1)->RS(1)->RS(0)"},
      {2, "S(0) S(1)", {}, "S(1) S(0)", {}, 3, "S(0)S(1)->RS(1)->RS(0)->S(1)S(0)"},
      {2, "S(0) S(0)", {}, "S(1) S(0)", {}, 3, "S(0)[0]S(0)[1]->S(0)R->S(1)R->S(1)S(0)"},
      {2, "S(0) P", {}, "R S(0)", {}, 4, "S(0)P(sum)->RP(sum)->RS(0)"},
      {2, "R P", {}, "S(0) R", {}, 4, "RP(sum)->S(0)P(sum)->S(0)R"},
      {2, "P S(0)", {}, "S(0) P", {}, 4, "P(sum)S(0)->P(sum)R->P(sum)P(sum)->S(0)P(sum)"},
      {2,
       "S(0) S(0)",
       swapped,
       "S(0) S(0)",
       {},
       4,
       "S(0)[1]S(0)[0]->RS(0)->RS(1)->S(0)S(1)->S(0)[0]S(0)[1]"},
      {1,
       "S(0) S(0)",
       {},
       "S(0) S(0)",
       swapped,
       4,
       "S(0)[0]S(0)[1]->S(0)R->RR->RS(0)->S(0)[1]S(0)[0]"},
      {2,
       "S(0) S(0)",
       {},
       "S(0) S(0)",
       swapped,
       4,
       "S(0)[0]S(0)[1]->S(0)R->S(1)R->S(1)S(0)->S(0)[1]S(0)[0]"},
      {2, "S(0) S(0)", swapped, "R R", {}, 4, "S(0)[1]S(0)[0]->RS(0)->RR"},
      {2, "R R", {}, "S(0) S(0)", swapped, 0, "RR->RS(0)->S(0)[1]S(0)[0]"},
      {2, "P P", {}, "S(0) S(0)", swapped, 4, "P(sum)P(sum)->P(sum)S(0)->S(0)[1]S(0)[0]"},
      {2, "S(0) S(0)", swapped, "S(1) S(0)", {}, 1, "S(0)[1]S(0)[0]->S(1)S(0)"},
      {2, "S(0) S(0)", swapped, "P R", {}, 4, "S(0)[1]S(0)[0]->RS(0)->P(sum)S(0)->P(sum)R"},
  };
  SpecMaker matrix({2, 2}, {8, 8}), vector({2, 2}, {8});
  for (const Row& row : rows) {
    SpecMaker& spec = row.tensor_dims == 2 ? matrix : vector;
    const Priced got = fixed(spec(row.from, row.from_order), spec(row.to, row.to_order));
    CHECK(got.path == row.path);
    CHECK(got.cost == row.cost);
  }
}

TEST_CASE("W-3 graph plan on three mesh dims with a rotated order") {
  SpecMaker spec({2, 2, 2}, {8, 8});
  const Priced got = fixed(spec("S(0) S(0) S(0)", {{0, {2, 0, 1}}}), spec("S(0) S(0) S(0)"));
  CHECK(got.cost == 6);
  CHECK(got.path ==
        "S(0)[1]S(0)[2]S(0)[0]->S(0)[1]RS(0)[0]->RRS(0)->RRS(1)->S(0)RS(1)->"
        "S(0)[0]S(0)[1]S(1)->S(0)[0]S(0)[1]S(0)[2]");
}

TEST_CASE("R-24 W-3 an unreachable target is reported with both states") {
  SpecMaker spec({2}, {8});
  const PlanResult result = plan_graph(*spec("R"), *spec("P(max)"), CostModel::kFixed, {});
  REQUIRE(std::holds_alternative<NoPlan>(result));
  CHECK(std::get<NoPlan>(result).reason == "no path from R to P(max)");
}

TEST_CASE("R-23 equal states need no step") {
  SpecMaker spec({2, 2}, {8, 8});
  CHECK(fixed(spec("S(0) P"), spec("S(0) P")).path == "S(0)P(sum)");
}

std::size_t reachable(std::size_t tensor_dims, std::size_t mesh_dims) {
  EdgeRules rules;
  rules.tensor_dims = tensor_dims;
  rules.to_partial = {ReduceOp::kSum};
  std::vector<PlanState> states{{Placements(mesh_dims), ShardOrder(mesh_dims, -1)}};
  for (std::size_t next = 0; next < states.size(); ++next) {
    for (const Change& change : successors(states[next], rules)) {
      PlanState state = states[next];
      advance(state, change.mesh_dim, change.to);
      if (std::find(states.begin(), states.end(), state) == states.end()) states.push_back(state);
    }
  }
  return states.size();
}

TEST_CASE("W-4 R-26 reachable states by tensor dims and mesh dims") {
  CHECK(reachable(1, 1) == 3);
  CHECK(reachable(2, 1) == 4);
  CHECK(reachable(2, 2) == 18);
  CHECK(reachable(3, 2) == 28);
  CHECK(reachable(2, 3) == 92);
  CHECK(reachable(3, 3) == 176);
}

// A price that the user brings has no known lower bound of the rest.
class ReferencePrice final : public CollectivePrice {
 public:
  double us(CollectiveKind kind, double gib, std::int64_t n, const Link& link) const override {
    return collective_us(kind, gib, n, link);
  }
};

// All states are searched for the second plan, and those that can still be on a cheapest way for
// the first. Small tensors pay for starts, large ones for bytes.
TEST_CASE("R-22 states that are left out do not change a plan") {
  PlanOptions options, whole;
  whole.topology.price = std::make_shared<ReferencePrice>();
  const char* letters[] = {"R", "S(0)", "S(1)", "S(2)", "P(sum)", "P(max)", "SS(1,2)"};
  const auto compare_from = [&](SpecMaker& spec, const DTensorSpec* source) {
    std::size_t reached = 0;
    for (const char* first : letters) {
      for (const char* second : letters) {
        for (const char* third : letters) {
          const std::string to = fmt::format("{} {} {}", first, second, third);
          const bool mixes = to.find("P(sum)") != to.npos && to.find("P(max)") != to.npos;
          if (mixes) continue;
          const DTensorSpec* target = spec(to);
          const PlanResult expected = plan_graph(*source, *target, CostModel::kTime, whole);
          const PlanResult plan = plan_graph(*source, *target, CostModel::kTime, options);
          const Plan* wanted = std::get_if<Plan>(&expected);
          const Plan* found = std::get_if<Plan>(&plan);
          REQUIRE((wanted == nullptr) == (found == nullptr));
          if (wanted == nullptr) continue;
          ++reached;
          CHECK(found->text() == wanted->text());
        }
      }
    }
    CHECK(reached > 60);
  };
  for (const Dims& shape : {Dims{12, 12, 12}, Dims{1200, 600, 768}}) {
    SpecMaker spec({2, 3, 2}, shape);
    for (const char* from : {"S(0) S(1) S(0)", "S(1) R P(sum)", "SS(0,3) S(0) R",
                             "P(max) S(2) S(2)", "S(1) SS(1,2) S(0)", "P(avg) SS(2,2) S(2)"}) {
      compare_from(spec, spec(from));
    }
    compare_from(spec, spec("S(0) S(0) R", {{0, {1, 0}}}));
  }
}

TEST_CASE("W-5 successors of S(0) R P in their order, with the seed's weights") {
  EdgeRules rules;
  rules.tensor_dims = 2;
  rules.to_partial = {ReduceOp::kSum};
  const PlanState state{test::placements("S(0) R P"), {0, -1, -1}};
  std::string text;
  for (const Change& change : successors(state, rules)) {
    const StepKind kind = step_kind(state.placements[change.mesh_dim], change.to);
    PlanState next = state;
    advance(next, change.mesh_dim, change.to);
    text += fmt::format("{} {}; ", order_text(next.placements, next.order), StepWeights{}.of(kind));
  }
  CHECK(text ==
        "S(1)RP(sum) 1; RRP(sum) 2; S(0)RR 4; S(0)[0]S(0)[1]P(sum) 0; S(0)S(1)P(sum) 0; "
        "S(0)[0]RS(0)[1] 2; S(0)RS(1) 2; S(0)P(sum)P(sum) 0; ");
}

TEST_CASE("R-27 a graph step sees every other cut of the state before it") {
  SpecMaker spec({2, 2}, {7, 3});
  const PlanResult result =
      plan_graph(*spec("S(0) S(0)", {{0, {1, 0}}}), *spec("R R"), CostModel::kTime, PlanOptions{});
  const Plan& plan = std::get<Plan>(result);
  CHECK(test::step_text(plan, {0, 0}) == "m0: S(0)->R [4,3]; m1: S(0)->R [7,3]");
  CHECK(test::step_text(plan, {0, 1}) == "m0: S(0)->R [3,3]; m1: S(0)->R [7,3]");
}

TEST_CASE("X-31 time costs: the direct all-to-all wins on large tensors only") {
  const auto path = [](Dims shape) {
    SpecMaker spec({2, 4}, std::move(shape));
    PlanOptions options;
    options.topology.devices_per_host = 8;
    const PlanResult result =
        plan_graph(*spec("S(0) R"), *spec("S(1) R"), CostModel::kTime, options);
    return std::get<Plan>(result).text();
  };
  CHECK(path({16, 8}) == "S(0)R->RR->S(1)R");
  CHECK(path({1024, 4096}) == "S(0)R->S(1)R");
}

}  // namespace
}  // namespace shardlab
