#include <doctest/doctest.h>

#include "plan/whole.h"
#include "tests/unit/plan/plan_support.h"

namespace shardlab {
namespace {

using test::SpecMaker;

TEST_CASE("X-6 greedy plans that would mix up the elements of strided shards are found") {
  SpecMaker spec({2, 2}, {8, 8});
  const auto keeps = [&](const char* from, const char* to) {
    const PlanResult result = plan_greedy(*spec(from), *spec(to), PlanRules::kV2_15);
    return keeps_data(std::get<Plan>(result));
  };
  CHECK(keeps("S(0) S(0)", "R S(0)"));
  CHECK(keeps("SS(0,3) R", "R R"));
  CHECK_FALSE(keeps("SS(0,3) SS(0,2)", "P SS(0,2)"));  // m0 goes while m1 still cuts dim 0
  CHECK_FALSE(keeps("S(1) SS(0,3)", "S(0) SS(0,3)"));  // m0 would cut dim 0 after m1
}

TEST_CASE("X-6 a plan through whole dims leaves the others alone") {
  SpecMaker spec({2, 2, 2}, {8, 8});
  const Plan plan = plan_through_whole(*spec("SS(0,3) S(0) S(1)"), *spec("R S(0) S(1)"));
  CHECK(plan.text() == "SS(0,3)[0]S(0)[1]S(1)->SS(0,3)RS(1)->RRS(1)->RS(0)S(1)");
  CHECK(keeps_data(plan));
}

TEST_CASE("X-6 the plan cache never hands out a plan that mixes up elements") {
  SpecMaker spec({2, 2}, {8, 8});
  PlanCache cache{PlanOptions{}};
  const Plan& plan = cache.find(spec("S(1) SS(0,3)"), spec("S(0) SS(0,3)"));
  CHECK(plan.text() == "S(1)SS(0,3)->RSS(0,3)->RR->S(0)R->S(0)[0]SS(0,3)[1]");
}

}  // namespace
}  // namespace shardlab
