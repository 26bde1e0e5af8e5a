#include "sim/report/run_diff.h"

#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "sim/files/json_value.h"
#include "sim/report/run_json.h"
#include "sim/verify/kept_value.h"
#include "tests/unit/scenario/scenario_text.h"

using namespace shardlab;

namespace {

struct Setting {
  std::vector<std::string> set;
  SchedulerKind scheduler = SchedulerKind::kPool;
  std::int64_t keep = kKeepAll;
};

Json run(const std::string& text, const Setting& setting = {}) {
  ScenarioOptions options;
  options.keep_elements = setting.keep;
  options.schedule.kind = setting.scheduler;
  return Json::parse(
      run_json(run_scenario(test::scenario_of(text, setting.set), all_ops(), options)));
}

// Uneven over 2 and 4 ranks; the product is reduced in another order on each.
std::string program(const std::string& code) {
  return R"(
[mesh]
x = 2
[inputs]
a = { type = "f32[3, 37@x]" }
b = { type = "f32[37@x, 5]" }
v = { type = "f32[5@x]", values = [1, 2, 3, 4, 5] }
[program]
code = """
)" + code +
         "\n\"\"\"\n";
}

const std::string kProduct = program("y = (a @ b).redistribute(x=R)\nw = v * 2");

const DiffSection& section(const RunDiff& diff, std::string_view name) {
  for (const DiffSection& one : diff.sections) {
    if (one.name == name) return one;
  }
  FAIL("no section");
  return diff.sections.front();
}

}  // namespace

TEST_CASE("B-61 diff: schedulers agree bitwise") {
  const RunDiff diff = diff_run(run(kProduct), run(kProduct, {{}, SchedulerKind::kThreads}));
  CHECK(diff.equal());
  CHECK(diff.setup == std::vector<std::string>{"scheduler: pool and threads"});
  CHECK(section(diff, "values").text == "2 bitwise, 0 within the envelope");
  CHECK(section(diff, "decisions").text == "3 compared, all equal");
}

TEST_CASE(
    "B-61 diff: products of other instructions add up in another order: values are not compared") {
  const Json a = run(kProduct);
  Json b = a;
  b["products"] = "sse";
  b["values"][0]["whole"][0]["elements"][0] = 1000;
  b["printed"] = Json::array({{{"line", 1}, {"text", "1000"}, {"by", "all"}}});
  if (a.at("products") == "sse") b["products"] = "avx2";
  const RunDiff diff = diff_run(a, b);
  CHECK(diff.equal());
  const std::string ours = a.at("products"), theirs = b.at("products");
  CHECK(diff.setup == std::vector<std::string>{"products: " + ours + " and " + theirs});
  CHECK(section(diff, "values").text ==
        "not compared: products of " + ours + " in A and of " + theirs +
            " in B add up in another order; run both in builds with one -Dcpu");
  CHECK(section(diff, "decisions").text == "3 compared, all equal");
}

TEST_CASE(
    "B-61 diff: on a mesh of another size values agree by global index, within the envelopes") {
  const RunDiff diff = diff_run(run(kProduct), run(kProduct, {{"mesh.x=4"}}));
  CHECK(diff.equal());
  CHECK(section(diff, "values").text == "1 bitwise, 1 within the envelope");
  CHECK(section(diff, "collectives").text ==
        "1 compared, all equal but for sizes, which the meshes set");
}

TEST_CASE("B-61 diff: another value is found, with its index and what both runs allow") {
  const Json a = run(kProduct);
  Json b = a;
  b["values"][1]["whole"][0]["elements"][3] = 8.5;
  b["values"][1]["whole"][0]["hash"] = "0";
  const RunDiff diff = diff_run(a, b);
  REQUIRE(diff.first() != nullptr);
  CHECK(diff.first()->about == "value w");
  CHECK(diff.first()->text ==
        "t.toml:11:1\nelement [3] is 8.0 in A and 8.5 in B: off by 0.5, both runs are exact there");
}

TEST_CASE("B-61 diff: an element beyond the envelope is found, one inside is not") {
  const Json a = run(kProduct);
  const double element = a["values"][0]["whole"][0]["elements"][7];
  const double allowed = a["values"][0]["allowed"];
  Json b = a;
  b["values"][0]["whole"][0]["hash"] = "0";
  b["values"][0]["whole"][0]["elements"][7] = element + 1.9 * allowed;
  CHECK(diff_run(a, b).equal());
  b["values"][0]["whole"][0]["elements"][7] = element + 2.1 * allowed;
  REQUIRE_FALSE(diff_run(a, b).equal());
  CHECK(diff_run(a, b).first()->text.find("element [1, 2] is") != std::string::npos);
}

TEST_CASE("B-61 diff: the first decision that differs is told, with the reason") {
  const RunDiff diff = diff_run(run(program("y = (a @ b).redistribute(x=R)")),
                                run(program("y = (a @ b).redistribute(x=S(0))")));
  REQUIRE(diff.first() != nullptr);
  CHECK(diff.first()->about == "decision 2");
  CHECK(diff.first()->text ==
        "A, line 10, forward: redistribute f32[3, 5]{sum:x} to f32[3, 5] by P(sum)->R\n"
        "B, line 10, forward: redistribute f32[3, 5]{sum:x} to f32[3@x, 5] by P(sum)->S(0)\n"
        "what moves is not the same");
  CHECK_FALSE(section(diff, "collectives").differences.empty());
}

TEST_CASE("B-61 diff: the earliest value that another seed changes is named") {
  const RunDiff diff = diff_run(run(kProduct), run(kProduct, {{"seed=5"}}));
  REQUIRE(diff.first() != nullptr);
  CHECK(diff.first()->about == "value y");
  CHECK(diff.first()->text.find("the seeds differ") != std::string::npos);
}

TEST_CASE("B-61 diff: meshes whose dims have other names leave decisions out") {
  const std::string other = program("w = v * 2\n");
  Json a = run(other), b = run(other);
  b["mesh"] = "{tp:2}";
  b["mesh_dims"] = Json::parse(R"([{"name": "tp", "size": 2}])");
  const RunDiff diff = diff_run(a, b);
  CHECK(diff.equal());
  CHECK(section(diff, "decisions").text ==
        "not compared: the mesh dims have other names, {x:2} and {tp:2}");
}

TEST_CASE("B-61 diff: hashes decide whether values are exact where only first elements are kept") {
  const Json a = run(kProduct, {{}, SchedulerKind::kPool, 2});
  Json b = a;
  CHECK(diff_run(a, b).equal());
  b["values"][1]["whole"][0]["hash"] = "0";
  CHECK(diff_run(a, b).first()->text ==
        "t.toml:11:1\nthe first 2 of 5 elements agree, the hashes of all differ");
  b = a;
  b["values"][0]["whole"][0]["hash"] = "0";
  CHECK(diff_run(a, b).first()->text.find("--values all") != std::string::npos);
}

TEST_CASE("B-61 diff: an error on one side is told") {
  const RunDiff diff =
      diff_run(run(program("w = v * 2\n")), run(program("w = v * 2\nassert False, 'no'\n")));
  REQUIRE(diff.first() != nullptr);
  CHECK(section(diff, "outcome").differences.at(0).text ==
        "A ends with ok\nB ends with Assert error: assert False: no");
}

TEST_CASE("B-61 diff: values without elements are compared by type, and it says why") {
  const Json a = run(kProduct);
  Json b = run(kProduct, {{}, SchedulerKind::kPool, 0});
  CHECK(section(diff_run(a, b), "values").text ==
        "0 bitwise, 0 within the envelope, "
        "2 by type only (elements come with run --json --values all)");
  b["not_verified"] = "shapes only: nothing verified";
  CHECK(section(diff_run(a, b), "values").text ==
        "0 bitwise, 0 within the envelope, 2 by type only (shapes only: nothing verified)");
}
