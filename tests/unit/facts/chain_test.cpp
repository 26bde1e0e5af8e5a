// Chain facts whose answers are altered: the checker must see each, on one rank or under the drawn
// placements. The right answers are small sums that are written down.
#include <doctest/doctest.h>

#include "sim/files/json_value.h"
#include "tests/facts/chain_judge.h"

using namespace shardlab;

namespace {

Json tensor(const char* dtype, std::vector<int> shape, Json data) {
  return {{"dtype", dtype}, {"shape", std::move(shape)}, {"data", std::move(data)}};
}

Json input(const char* dtype, std::vector<int> shape, Json data, bool requires_grad) {
  Json recorded = tensor(dtype, std::move(shape), std::move(data));
  recorded["requires_grad"] = requires_grad;
  return recorded;
}

Json fact(const std::string& program, Json inputs) {
  return {{"id", "test/chain"},        {"program", program},      {"inputs", std::move(inputs)},
          {"results", Json::object()}, {"grads", Json::object()}, {"after", Json::object()},
          {"error", nullptr},          {"coarsest", "f32"},       {"tags", {"test"}}};
}

// y = x * 2, of which the first row is doubled in place; 5 rows, so that most meshes cut unevenly.
Json doubled() {
  Json line = fact("y = a * 2\nloss = (y * y).sum()\nbackward(loss)\nn = i.sum()\ni.add_(1)",
                   {{"a", input("f32", {5}, {1, 2, 3, 4, 5}, true)},
                    {"i", input("u8", {3}, {200, 100, 3}, false)}});
  line["results"] = {{"y", tensor("f32", {5}, {2, 4, 6, 8, 10})},
                     {"loss", tensor("f32", {}, {220})},
                     {"n", tensor("i64", {}, {303})}};
  line["grads"] = {{"a", tensor("f32", {5}, {8, 16, 24, 32, 40})}};
  line["after"] = {{"i", tensor("u8", {3}, {201, 101, 4})}};
  return line;
}

ChainVerdict verdict(const Json& line, std::int64_t number = -1) {
  static FactScenarios scenarios;
  const ChainFact read = chain_fact(line);
  const bool drawn = number >= 0;
  const ChainDraw draw = drawn ? draw_placements(read, 1, number) : one_rank(read);
  return judge_chain(read, run_chain(scenarios, read, chain_scenario(read, draw)), drawn);
}

void check_wrong(const Json& line, const std::string& field) {
  for (const std::int64_t number : {-1, 0, 1, 2}) {
    const ChainVerdict found = verdict(line, number);
    CAPTURE(number);
    CHECK(found.outcome == ChainOutcome::kWrong);
    CHECK(found.field == field);
  }
}

}  // namespace

TEST_CASE("a chain fact agrees on one rank and under drawn placements") {
  for (std::int64_t number = -1; number < 20; ++number) {
    const ChainVerdict found = verdict(doubled(), number);
    CAPTURE(number);
    INFO(found.field << ": expected " << found.expected << ", got " << found.got);
    CHECK(found.outcome == ChainOutcome::kAgrees);
  }
}

TEST_CASE("a chain fact with another value, gradient, write, shape or dtype is wrong") {
  Json line = doubled();
  line["results"]["y"]["data"][4] = 10.001;
  check_wrong(line, "y");

  line = doubled();
  line["results"]["n"]["data"][0] = 304;
  check_wrong(line, "n");

  line = doubled();
  line["results"]["n"]["dtype"] = "i32";
  check_wrong(line, "n");

  line = doubled();
  line["results"]["loss"]["shape"] = {1};
  check_wrong(line, "loss");

  line = doubled();
  line["grads"]["a"]["data"][0] = 4;
  check_wrong(line, "a.grad");

  line = doubled();
  line["grads"]["a"] = nullptr;
  check_wrong(line, "a.grad");

  line = doubled();
  line["after"] = Json::object();  // i must then be unchanged
  check_wrong(line, "i");
}

TEST_CASE("a chain fact's error has to come, at its line") {
  Json line = fact("b = a * 2\nc = a.view(4)\nd = c + 1",
                   {{"a", input("f32", {5}, {1, 2, 3, 4, 5}, false)}});
  line["error"] = {{"type", "RuntimeError"}, {"line", 2}};
  CHECK(verdict(line).outcome == ChainOutcome::kAgrees);
  line["error"]["line"] = 3;
  CHECK(verdict(line).outcome == ChainOutcome::kWrong);
  line["program"] = "b = a * 2\nc = a.view(5)\nd = c + 1";
  CHECK(verdict(line).outcome == ChainOutcome::kWrong);
}

TEST_CASE("spellings that the language lacks are counted by name, not as right or wrong") {
  Json line = fact("b = torch.frobnicate(a)", {{"a", input("f32", {2}, {1, 2}, false)}});
  line["results"] = {{"b", tensor("f32", {2}, {1, 2})}};
  const ChainVerdict found = verdict(line);
  CHECK(found.outcome == ChainOutcome::kNotSupported);
  CHECK(found.reason == "torch.frobnicate");
}

TEST_CASE("NaN counts as NaN, infinities by their sign, the sign of zero where it is asked for") {
  Json line = fact("b = a * 1", {{"a", input("f32", {4}, {"nan", "inf", "-inf", -0.0}, false)}});
  line["results"] = {{"b", tensor("f32", {4}, {"nan", "inf", "-inf", 0.0})}};
  CHECK(verdict(line).outcome == ChainOutcome::kAgrees);
  line["tags"] = {"signed-zero"};
  CHECK(verdict(line).outcome == ChainOutcome::kWrong);
  line["results"]["b"]["data"] = {"nan", "inf", "-inf", -0.0};
  CHECK(verdict(line).outcome == ChainOutcome::kAgrees);
  line["results"]["b"]["data"] = {"nan", "-inf", "-inf", -0.0};
  CHECK(verdict(line).outcome == ChainOutcome::kWrong);
  line["results"]["b"]["data"] = {0.0, "inf", "-inf", -0.0};
  CHECK(verdict(line).outcome == ChainOutcome::kWrong);
}

TEST_CASE("drawn placements cut unevenly, twice in either order, and leave ranks empty") {
  Json line = fact("b = a * 1", {{"a", input("f32", {3, 2}, {1, 2, 3, 4, 5, 6}, false)}});
  const ChainFact read = chain_fact(line);
  int empty = 0, twice = 0, swapped = 0, cut = 0;
  for (std::int64_t number = 0; number < 200; ++number) {
    const ChainDraw draw = draw_placements(read, 7, number);
    CHECK(draw.mesh.size() >= 1);
    CHECK(draw.mesh.size() <= 3);
    for (std::size_t dim = 0; dim < 2; ++dim) {
      const auto& order = draw.inputs[0].by_dim[dim];
      std::int64_t pieces = 1;
      for (const std::size_t mesh_dim : order) pieces *= draw.mesh[mesh_dim];
      cut += order.empty() ? 0 : 1;
      empty += pieces > (dim == 0 ? 3 : 2) ? 1 : 0;
      twice += order.size() == 2 ? 1 : 0;
      swapped += order.size() == 2 && order[0] > order[1] ? 1 : 0;
    }
  }
  CHECK(cut > 100);
  CHECK(empty > 50);
  CHECK(twice > 20);
  CHECK(swapped > 5);
  CHECK(swapped < twice);
}
