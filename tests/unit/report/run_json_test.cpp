#include "sim/report/run_json.h"

#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "sim/files/json_value.h"
#include "tests/unit/scenario/scenario_text.h"

using namespace shardlab;

namespace {

nlohmann::json json_of(const std::string& text, std::int64_t keep_elements) {
  ScenarioOptions options;
  options.keep_elements = keep_elements;
  return nlohmann::json::parse(run_json(run_scenario(test::scenario_of(text), all_ops(), options)));
}

const char* const kFile = R"(
[mesh]
x = 4
[inputs]
a = { type = "f32[5@x]", values = [1.5, -2.0, 0.25, 7.0, nan] }
i = { type = "i64[3]{sum:x}", values = [3, -1, 9] }
[program]
code = """
b = a.clone()
j = i.redistribute(x=R)
k = a.redistribute(x=R)
"""
)";

}  // namespace

// The hashes are FNV-1a over the little-endian bytes, made in Python.
TEST_CASE("a run's JSON carries whole values by global index, uneven and empty shards in order") {
  const nlohmann::json json = json_of(kFile, kKeepAll);
  const nlohmann::json& b = json["values"][0]["whole"];
  REQUIRE(b.size() == 1);
  CHECK(b[0]["elements"] == nlohmann::json::parse(R"([1.5, -2.0, 0.25, 7.0, "nan"])"));
  CHECK(b[0]["shape"] == nlohmann::json::parse("[5]"));
  CHECK(b[0]["count"] == 5);
  CHECK(b[0]["largest"] == 7.0);
  CHECK(b[0]["hash"] == "47db16731fb37ed4");
  const nlohmann::json& j = json["values"][1]["whole"];
  CHECK(j[0]["elements"] == nlohmann::json::parse("[3, -1, 9]"));
  CHECK(j[0]["hash"] == "20c283c48d630ff7");
}

TEST_CASE("a run's JSON keeps as many elements as asked for, and a hash of all") {
  const nlohmann::json whole = json_of(kFile, kKeepAll)["values"][0]["whole"][0];
  const nlohmann::json two = json_of(kFile, 2)["values"][0]["whole"][0];
  CHECK(two["elements"] == nlohmann::json::parse("[1.5, -2.0]"));
  CHECK(two["count"] == 5);
  CHECK(two["hash"] == whole["hash"]);
  CHECK_FALSE(json_of(kFile, 0)["values"][0].contains("whole"));
}

TEST_CASE("a run's JSON says which row was chosen and which steps a plan has") {
  const nlohmann::json json = json_of(kFile, 0);
  nlohmann::json ops = nlohmann::json::array(), steps = nlohmann::json::array();
  for (const nlohmann::json& event : json["events"]) {
    if (event.contains("op")) ops.push_back(event["row"]);
    if (event.contains("redistribute")) steps.push_back(event["redistribute"]["steps"]);
  }
  CHECK(ops == nlohmann::json::parse(R"j(["(S(0)) -> (S(0))"])j"));
  CHECK(steps == nlohmann::json::parse(R"j([
    [{"mesh_dims": ["x"], "from": "P(sum)", "to": "R", "communicates": true}],
    [{"mesh_dims": ["x"], "from": "S(0)", "to": "R", "communicates": true}]])j"));
}

TEST_CASE("values are kept also where the scenario asks for no verification") {
  const nlohmann::json json = json_of(std::string(kFile) + "[expect]\nverify = \"none\"\n", 8);
  CHECK(json["ok"] == true);
  CHECK(json["values"][0]["whole"][0]["count"] == 5);
  CHECK(json["values"][0]["not_verified"] == "verify = \"none\"");
}
