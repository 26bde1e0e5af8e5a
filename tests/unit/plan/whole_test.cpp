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
  CHECK_FALSE(keeps("SS(0,3) SS(0,2)", "P SS(0,2)"));  // m0 is gathered while m1 still cuts dim 0
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
  const Plan plan = *cache.find(spec("S(1) SS(0,3)"), spec("S(0) SS(0,3)"));
  CHECK(plan.text() == "S(1)SS(0,3)->RSS(0,3)->RR->S(0)R->S(0)[0]SS(0,3)[1]");
}

/// Paths of PyTorch 2.15 on a mesh of 2x2.
TEST_CASE("R-39 strided shards that a view left are planned as they are, whatever order they fit") {
  SpecMaker spec({2, 2}, {16, 16});
  const auto path = [&](const char* from, const char* to) {
    const PlanResult result = make_safe_plan(*spec(from)->with(StridedShards::kPieces),
                                             *spec(to)->with(StridedShards::kPieces), {});
    return std::get<Plan>(result).text();
  };
  CHECK(path("S(1) SS(1,2)", "R S(0)") == "S(1)[0]SS(1,2)[1]->S(1)R->S(1)S(0)->RS(0)");
  CHECK(path("SS(0,2) S(1)", "R R") == "SS(0,2)S(1)->SS(0,2)R->RR");
  CHECK(path("SS(0,2) S(0)", "R R") == "SS(0,2)[0]S(0)[1]->SS(0,2)R->RR");
  CHECK(path("R S(1)", "SS(0,4) S(1)") == "RS(1)->SS(0,4)S(1)");
  CHECK(path("P S(1)", "SS(0,2) S(1)") == "P(sum)S(1)->RS(1)->SS(0,2)S(1)");
  CHECK(path("S(0) SS(0,2)", "S(0) S(0)") == "S(0)[0]SS(0,2)[1]->S(0)R->S(0)[0]S(0)[1]");
  CHECK(path("SS(0,2) S(0)", "S(0) SS(0,4)") ==
        "SS(0,2)[0]S(0)[1]->SS(0,2)R->RR->S(0)R->S(0)[0]SS(0,4)[1]");
  CHECK(path("SS(0,4) SS(1,2)", "P R") == "SS(0,4)SS(1,2)->RSS(1,2)->P(sum)SS(1,2)->P(sum)R");
  // The same placements, meant as an order: the mesh dim that cuts last is gathered first.
  CHECK(std::get<Plan>(make_safe_plan(*spec("SS(0,2) S(0)"), *spec("R R"), {})).text() ==
        "S(0)[1]S(0)[0]->RS(0)->RR");
}

/// Plans of PyTorch 2.15 for a mesh of 3x2, as its rank 0 sees them: strided shards that some order
/// is written as are planned as that order, whether the cuts are even or not.
TEST_CASE("X-6 strided shards are planned as the order that they stand for, also on uneven cuts") {
  struct Row {
    Dims shape;
    const char *from, *to, *steps;
  };
  const Row rows[] = {
      {{7, 11},
       "S(0) S(0)",
       "SS(0,2) S(0)",
       "m1: S(0)->R [3,11]; m0: S(0)->R [7,11]; m1: R->S(0) [7,11]; m0: R->S(0) [4,11]"},
      {{7, 11},
       "SS(0,2) S(0)",
       "S(0) S(0)",
       "m0: S(0)->R [4,11]; m1: S(0)->R [7,11]; m0: R->S(0) [7,11]; m1: R->S(0) [3,11]"},
      {{7, 11}, "SS(0,2) S(0)", "R S(0)", "m0: S(0)->R [4,11]"},
      {{7, 11}, "R R", "SS(0,2) S(0)", "m1: R->S(0) [7,11]; m0: R->S(0) [4,11]"},
      {{7, 11},
       "S(0) R",
       "SS(0,2) S(0)",
       "m0: S(0)->R [7,11]; m1: R->S(0) [7,11]; m0: R->S(0) [4,11]"},
      {{12, 4},
       "S(0) S(0)",
       "SS(0,2) S(0)",
       "m1: S(0)->R [4,4]; m0: S(0)->R [12,4]; m1: R->S(0) [12,4]; m0: R->S(0) [6,4]"},
      {{5, 3},
       "SS(0,2) S(0)",
       "S(0) S(0)",
       "m0: S(0)->R [3,3]; m1: S(0)->R [5,3]; m0: R->S(0) [5,3]; m1: R->S(0) [2,3]"},
      {{13, 2},
       "S(0) R",
       "SS(0,2) S(0)",
       "m0: S(0)->R [13,2]; m1: R->S(0) [13,2]; m0: R->S(0) [7,2]"},
  };
  for (const Row& row : rows) {
    SpecMaker spec({3, 2}, row.shape);
    const PlanResult plan = make_plan(*spec(row.from), *spec(row.to), {});
    INFO(row.from, " to ", row.to);
    CHECK(test::step_text(std::get<Plan>(plan), {0, 0}) == row.steps);
  }
}

TEST_CASE("X-6 a plan whose order has other elements is not executed") {
  SpecMaker uneven({3, 2}, {7, 11}), even({3, 2}, {12, 4});
  const auto steps = [](SpecMaker& spec, const char* from, const char* to) {
    const PlanResult plan = make_safe_plan(*spec(from), *spec(to), {});
    return std::get<Plan>(plan).text();
  };
  CHECK(steps(uneven, "S(0) S(0)", "SS(0,2) S(0)") ==
        "S(0)[0]S(0)[1]->S(0)R->RR->SS(0,2)R->SS(0,2)[0]S(0)[1]");
  CHECK(steps(even, "S(0) S(0)", "SS(0,2) S(0)") ==
        "S(0)[0]S(0)[1]->S(0)R->RR->RS(0)->S(0)[1]S(0)[0]");
}

}  // namespace
}  // namespace shardlab
