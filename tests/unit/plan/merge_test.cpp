#include "plan/merge.h"

#include <doctest/doctest.h>

#include "tests/unit/plan/plan_support.h"

namespace shardlab {
namespace {

using test::SpecMaker;

std::string merged(SpecMaker& spec, const char* from, const char* to,
                   const FlattenedDims& flattened) {
  const PlanResult plan = plan_greedy(*spec(from), *spec(to), PlanRules::kV2_15);
  return merge_steps(std::get<Plan>(plan), flattened).text();
}

TEST_CASE("steps of one kind merge where their dims were flattened, and only there") {
  SpecMaker spec({2, 2, 2}, {8, 8});
  CHECK(merged(spec, "P P R", "R R R", {0b011}) == "P(sum)P(sum)R-->RRR");
  CHECK(merged(spec, "P P R", "R R R", {0b110}) == "P(sum)P(sum)R->RP(sum)R->RRR");
  CHECK(merged(spec, "P P R", "R R R", {}) == "P(sum)P(sum)R->RP(sum)R->RRR");
  CHECK(merged(spec, "R S(1) S(1)", "R R R", {0b110}) == "RS(1)[0]S(1)[1]-->RRR");
  CHECK(merged(spec, "P P R", "S(0) S(0) R", {0b011}) == "P(sum)P(sum)R-->S(0)[0]S(0)[1]R");
  CHECK(merged(spec, "S(0) R S(1)", "S(1) R S(0)", {0b101}).find("-->") == std::string::npos);
}

TEST_CASE("a reduce-scatter that leaves a remainder on some rank is not merged") {
  SpecMaker spec({2, 2}, {6, 8});
  CHECK(merged(spec, "P P", "S(0) S(0)", {0b11}) == "P(sum)P(sum)->S(0)P(sum)->S(0)[0]S(0)[1]");
}

TEST_CASE("sum and avg merge into a sum that is divided afterwards") {
  SpecMaker spec({2, 3}, {6});
  const PlanResult plan = plan_greedy(*spec("P(sum) P(avg)"), *spec("R R"), PlanRules::kV2_15);
  const Plan one = merge_steps(std::get<Plan>(plan), {0b11});
  REQUIRE(one.steps.size() == 1);
  CHECK(one.steps[0].from == Placement::partial());
  CHECK(one.steps[0].avg_scale == 3);
}

}  // namespace
}  // namespace shardlab
