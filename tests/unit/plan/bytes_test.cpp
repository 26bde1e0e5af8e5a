#include <doctest/doctest.h>

#include "plan/measure.h"
#include "tests/unit/plan/plan_support.h"

namespace shardlab {
namespace {

using test::SpecMaker;

Plan planned(const DTensorSpec* from, const DTensorSpec* to, PlanOptions options = {}) {
  options.planner = PlannerKind::kBytes;
  return std::get<Plan>(make_plan(*from, *to, options));
}

TEST_CASE("planner bytes cuts, exchanges and gathers where gathering all would move more") {
  SpecMaker spec({2, 3}, {6});
  const Plan plan = planned(spec("S(0) R"), spec("R S(0)"));
  CHECK(plan.text() == "S(0)R->S(0)[0]S(0)[1]->S(0)[1]S(0)[0]->RS(0)");
  REQUIRE(plan.steps.size() == 3);
  CHECK(plan.steps[1].kind == StepKind::kPermute);
  // Mesh index 3x + y holds row 3x + y and needs row 2y + x.
  CHECK(plan.steps[1].senders == std::vector<std::int32_t>{0, 2, 4, 1, 3, 5});
  const auto figures = measure_steps(plan, {});
  CHECK(figures[0].received_most == 0);
  CHECK(figures[1].received_most == 4);
  CHECK(figures[2].received_most == 4);
  REQUIRE(plan.proof);
  CHECK(plan.proof->optimal);
  CHECK(plan.proof->bytes == 8);
  CHECK(plan.proof->bound == 8);
  CHECK(plan.proof->text() == "optimal");
  const PlanResult greedy = plan_greedy(*spec("S(0) R"), *spec("R S(0)"), PlanRules::kV2_15);
  CHECK(measure_steps(std::get<Plan>(greedy), {})[0].received_most == 12);
}

TEST_CASE("planner bytes swaps cuts of equal mesh dims by one exchange") {
  SpecMaker spec({2, 2}, {8, 8});
  const Plan plan = planned(spec("S(0) S(1)"), spec("S(1) S(0)"));
  REQUIRE(plan.steps.size() == 1);
  CHECK(plan.steps[0].kind == StepKind::kPermute);
  CHECK(plan.steps[0].senders == std::vector<std::int32_t>{0, 2, 1, 3});
}

TEST_CASE("planner bytes keeps the greedy plan when nothing is better") {
  SpecMaker spec({4}, {8});
  CHECK(planned(spec("S(0)"), spec("R")).text() == "S(0)->R");
  CHECK(planned(spec("P"), spec("S(0)")).text() == "P(sum)->S(0)");
  CHECK(planned(spec("S(0)"), spec("S(0)")).steps.empty());
}

TEST_CASE("planner bytes spares slow links before fast ones") {
  SpecMaker spec({2, 2}, {8, 8});
  PlanOptions options;
  options.topology.links["m0"] = {10, 5};
  options.topology.links["m1"] = {400, 1};
  // The fast dim scatters first, so that half as much crosses the slow one: 32 elements, not 64.
  const Plan plan = planned(spec("P P"), spec("R R"), options);
  CHECK(plan.proof->optimal);
  CHECK(plan.proof->bytes == 4 * 32);
  const auto figures = measure_steps(plan, options.topology);
  CHECK(sum_up(figures, spec.layout(), options.topology).received == 4 * 32);
}

TEST_CASE("planner bytes says how far its plan may be from the best when its budget is spent") {
  SpecMaker spec({2, 2, 2, 2}, {8, 8, 8});
  PlanOptions options;
  options.budget = 1;
  const Plan plan = planned(spec("S(0) S(0) S(1) R"), spec("S(2) R S(0) S(1)"), options);
  REQUIRE(plan.proof);
  CHECK_FALSE(plan.proof->optimal);
  CHECK(plan.proof->expanded == 1);
  CHECK(plan.proof->bound < plan.proof->bytes);
  CHECK(plan.proof->text() == fmt::format("best found, gap <= {} B to the lower bound",
                                          plan.proof->bytes - plan.proof->bound));
}

TEST_CASE("X-10 planner bytes makes no terms that can not be made") {
  PlanOptions options;
  options.planner = PlannerKind::kBytes;
  // An integer is not divided; where it can be cut, each rank's piece is its term (X-32).
  SpecMaker scalar({2}, {}, DType::kI64);
  CHECK(std::holds_alternative<NoPlan>(make_plan(*scalar("R"), *scalar("P"), options)));
  SpecMaker spec({2}, {8}, DType::kI64);
  CHECK(planned(spec("R"), spec("P")).text() == "R->S(0)->P(sum)");
  CHECK(planned(spec("S(0)"), spec("P")).text() == "S(0)->P(sum)");
}

TEST_CASE("mesh dims of size 1 move nothing") {
  SpecMaker spec({2, 1}, {4});
  const Plan plan = planned(spec("S(0) P(max)"), spec("R S(0)"));
  CHECK(plan.text() == "S(0)P(max)->S(0)R->RR->RS(0)");
  const auto figures = measure_steps(plan, {});
  CHECK(figures[0].received_most == 0);
  CHECK(figures[1].received_most == 8);
  CHECK(figures[2].received_most == 0);
}

}  // namespace
}  // namespace shardlab
