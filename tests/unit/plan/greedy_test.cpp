#include <doctest/doctest.h>

#include "plan/state.h"
#include "tests/unit/plan/plan_support.h"

namespace shardlab {
namespace {

using test::SpecMaker;
using test::step_text;

std::string greedy(SpecMaker& spec, const char* from, const char* to, const Coordinate& coordinate,
                   PlanRules rules = PlanRules::kV2_15) {
  const PlanResult result = plan_greedy(*spec(from), *spec(to), rules);
  return step_text(std::get<Plan>(result), coordinate);
}

TEST_CASE("W-2 greedy plans on (2,2), rank 0, 8x8") {
  struct Row {
    const char* from;
    const char* to;
    const char* steps;
  };
  const Row rows[] = {
      {"S(0) S(0)", "R S(0)", "m1: S(0)->R [4,8]; m0: S(0)->R [8,8]; m1: R->S(0) [4,8]"},
      {"S(0) S(1)", "S(1) S(0)", "m1: S(1)->R [4,8]; m0: S(0)->S(1) [8,8]; m1: R->S(0) [4,8]"},
      {"S(0) S(0)", "S(0) S(1)", "m1: S(0)->S(1) [4,8]"},
      {"S(0) S(0)", "S(1) S(0)", "m1: S(0)->R [4,8]; m0: S(0)->S(1) [8,8]; m1: R->S(0) [4,8]"},
      {"S(0) R", "R S(0)", "m0: S(0)->R [8,8]; m1: R->S(0) [4,8]"},
      {"S(0) P", "R S(0)", "m1: P(sum)->R [4,8]; m0: S(0)->R [8,8]; m1: R->S(0) [4,8]"},
      {"P P", "S(0) S(0)", "m0: P(sum)->S(0) [8,8]; m1: P(sum)->S(0) [8,8]"},
      {"R P", "S(0) R", "m0: R->S(0) [8,8]; m1: P(sum)->R [8,8]"},
      {"P S(0)", "S(0) P", "m1: S(0)->P(sum) [8,8]; m0: P(sum)->S(0) [8,8]"},
  };
  SpecMaker spec({2, 2}, {8, 8});
  for (const Row& row : rows) {
    CAPTURE(row.from);
    CAPTURE(row.to);
    CHECK(greedy(spec, row.from, row.to, {0, 0}) == row.steps);
  }
}

TEST_CASE("W-2 greedy clears a nested shard on three mesh dims") {
  SpecMaker spec({2, 2, 2}, {8, 8});
  CHECK(greedy(spec, "S(0) S(0) S(0)", "S(0) R S(0)", {0, 0, 0}) ==
        "m2: S(0)->R [2,8]; m1: S(0)->R [4,8]; m2: R->S(0) [2,8]");
}

TEST_CASE("X-33 equal placements on a 1-d mesh: one step under seed rules, else none") {
  SpecMaker spec({4}, {8, 8});
  CHECK(greedy(spec, "R", "R", {0}, PlanRules::kSeed) == "m0: R->R [8,8]");
  CHECK(greedy(spec, "R", "R", {0}) == "");
}

TEST_CASE("W-6 logical shapes of nested uneven shards differ between groups") {
  SpecMaker seven({2, 2}, {7, 3});
  CHECK(greedy(seven, "S(0) S(0)", "R R", {0, 0}) == "m1: S(0)->R [4,3]; m0: S(0)->R [7,3]");
  CHECK(greedy(seven, "S(0) S(0)", "R R", {1, 0}) == "m1: S(0)->R [3,3]; m0: S(0)->R [7,3]");
  SpecMaker five({2, 3}, {5, 3});
  CHECK(greedy(five, "S(0) S(0)", "R R", {0, 2}) == "m1: S(0)->R [3,3]; m0: S(0)->R [5,3]");
  CHECK(greedy(five, "S(0) S(0)", "R R", {1, 2}) == "m1: S(0)->R [2,3]; m0: S(0)->R [5,3]");
}

TEST_CASE("R-34 shards on mesh dims of size 1 alone do not start the first phase") {
  SpecMaker spec({1, 2}, {8, 8});
  CHECK(greedy(spec, "S(0) R", "R S(0)", {0, 0}) == "m0: S(0)->R [8,8]; m1: R->S(0) [8,8]");
}

TEST_CASE("W-11 a plan keeps its step on a mesh dim of size 1") {
  SpecMaker spec({1, 4}, {8, 8});
  CHECK(greedy(spec, "P R", "R R", {0, 0}) == "m0: P(sum)->R [8,8]");
  CHECK(greedy(spec, "S(0) S(1)", "R S(1)", {0, 0}) == "m0: S(0)->R [8,8]");
}

TEST_CASE("R-63 the text of a plan is its states") {
  SpecMaker spec({2, 2}, {8, 8});
  const PlanResult result = plan_greedy(*spec("S(0) S(0)"), *spec("R S(0)"), PlanRules::kV2_15);
  CHECK(std::get<Plan>(result).text() == "S(0)[0]S(0)[1]->S(0)R->RR->RS(0)");
}

TEST_CASE("X-32 X-2 a shard becomes P(sum) locally, other targets are listed as refused") {
  const auto kind = [](const char* from, const char* to) {
    return step_kind(parse_placement(from).value(), parse_placement(to).value());
  };
  CHECK(kind("S(0)", "P(sum)") == StepKind::kShardToPartial);
  CHECK(kind("S(0)", "P(max)") == StepKind::kRefused);
  CHECK(kind("P(sum)", "P(avg)") == StepKind::kRefused);
  CHECK(kind("R", "NP(2)") == StepKind::kToPartial);
  CHECK(kind("S(0)", "NP(2)") == StepKind::kRefused);
  CHECK(kind("R", "P(max)") == StepKind::kToPartial);
  CHECK(kind("NP(2)", "R") == StepKind::kAllReduce);
  CHECK(kind("MP(sum,16x8,0)", "S(1)") == StepKind::kReduceScatter);
  CHECK(kind("SS(0,2)", "S(0)") == StepKind::kAllToAll);
  CHECK_FALSE(PlanStep{.kind = StepKind::kChunk}.communicates());
  CHECK(PlanStep{.kind = StepKind::kAllToAll}.communicates());
}

}  // namespace
}  // namespace shardlab
