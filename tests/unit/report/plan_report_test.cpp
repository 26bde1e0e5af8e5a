#include "sim/report/plan_report.h"

#include <doctest/doctest.h>

#include "mesh/type_string.h"
#include "sim/files/json_value.h"
#include "tests/unit/report/report_text.h"

using namespace shardlab;

namespace {

using test::has;

struct Pair {
  Arena arena;
  const DTensorSpec* source;
  const DTensorSpec* target;
  Pair(std::string_view from, std::string_view to) {
    const MeshLayout* mesh = arena.layout({{2, 3}, {"x", "y"}, {}});
    source = spec(*mesh, from);
    target = spec(*mesh, to);
  }
  const DTensorSpec* spec(const MeshLayout& mesh, std::string_view text) {
    const ParsedType type = parse_type(text, mesh);
    return arena.spec(&mesh, type.placements, type.order, contiguous_meta(type.shape, *type.dtype));
  }
};

std::string text_of(const Pair& pair, Drawings drawings, const PlanOptions& options = {}) {
  return plan_report_text(report_plans(*pair.source, *pair.target, options), drawings, {});
}

}  // namespace

TEST_CASE("plan: planners side by side, what ranks send, the distance from the bound") {
  const Pair pair("f32[7@x, 6]", "f32[7, 6@y]");
  const std::string text = text_of(pair, Drawings::kOff);
  has(text, "f32[7@x, 6] -> f32[7, 6@y]  on {x:2, y:3}\n");
  // A rank that holds 4 rows wants 2 columns of 7: 3 x 2 elements are missing; with 3 rows, 4 x 2.
  has(text, "every plan: some rank receives 32 B or more over the slowest links\n");
  // Cut by y first, then gathered: no plan can do with less.
  has(text, "all_gather over x (2 ranks)");
  has(text, "the steps of greedy");
}

TEST_CASE("plan: an exchange names who sends to whom, in ranks") {
  const std::string text =
      text_of(Pair("f32[6@x]", "f32[6@y]"), Drawings::kOff, {.planner = PlannerKind::kBytes});
  has(text, "permute pieces 2->1, 4->2, 1->3, 3->4");
  has(text, "optimal");
  CHECK(text.find("greedy") == std::string::npos);
}

TEST_CASE("plan: drawings show who holds what before and after every step") {
  const std::string text =
      text_of(Pair("f32[6@x]", "f32[6@y]"), Drawings::kOn, {.planner = PlannerKind::kGreedy});
  has(text, "at first");
  has(text, "0-2  0-2  0-2 │ 3-5  3-5  3-5");
  has(text, "after step 2, cut along y");
  has(text, "0,3  0,3 │ 1,4  1,4 │ 2,5  2,5");
}

TEST_CASE("plan: the same facts as JSON") {
  const Pair pair("f32[6@x]", "f32[6@y]");
  const auto json =
      nlohmann::json::parse(plan_report_json(report_plans(*pair.source, *pair.target, {})));
  CHECK(json["bound_bytes"] == 8);
  CHECK(json["planners"]["greedy"]["received_bytes"] == 12);
  CHECK(json["planners"]["greedy"]["over_bound_bytes"] == 4);
  const auto& bytes = json["planners"]["bytes"];
  CHECK(bytes["optimal"] == true);
  CHECK(bytes["received_bytes"] == 8);
  CHECK(bytes["steps"][1]["senders"] == nlohmann::json({0, 2, 4, 1, 3, 5}));
  CHECK(bytes["steps"][1]["sent_bytes"] == nlohmann::json({0, 4}));
  CHECK(bytes["steps"][2]["kind"] == "all_gather");
  CHECK(bytes["steps"][2]["communicates"] == true);
}

TEST_CASE("plan: cutting orders are not for greedy, and other sizes are refused") {
  has(text_of(Pair("f32[7@x, 6]", "f32[7, 6@(y,x)]"), Drawings::kOff),
      "no plan: for default orders only (R-37)");
  const Pair pair("f32[7@x]", "f32[8@x]");
  CHECK_THROWS_AS(report_plans(*pair.source, *pair.target, {}), Error);
}
