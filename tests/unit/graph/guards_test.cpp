// Every fact that decisions rest on is changed once: the graph is refused, and the fact is named.
#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "sim/graph/trace_report.h"
#include "sim/scenario/scenario_file.h"
#include "trace/graph_break.h"
#include "trace/guards.h"

namespace shardlab {
namespace {

constexpr const char* kText = R"toml(
title = "two layers"
seed = 3
[mesh]
dp = 2
tp = 2
[params]
hidden = 6
scale = 0.5
unused = 1
[inputs]
x = { type = "f32[7@dp, hidden]" }
w = { type = "f32[hidden, 4@tp]", requires_grad = true }
[program]
code = """
y = (x @ w) * scale
loss = y.sum()
loss.backward()
"""
)toml";

Scenario scenario_of_text(std::string text, const std::vector<std::string>& settings = {}) {
  std::vector<Setting> set;
  for (const std::string& setting : settings) set.push_back(parse_setting(setting));
  const ScenarioFile file =
      ScenarioFile::read(std::make_shared<const SourceText>("t.toml", std::move(text)), set);
  return file.at(file.points().at(0));
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

Captured captured_of(const Scenario& scenario) {
  OpRegistry registry;
  register_all_ops(registry);
  return capture_scenario(scenario, registry, {});
}

// "source: found" of the first guard that does not hold, or "holds".
std::string broken_by(const std::vector<Guard>& guards, const Scenario& scenario) {
  const auto broken = first_broken(guards, facts_of(scenario));
  return broken ? broken->guard.source + ": " + broken->found : "holds";
}

TEST_CASE("T-4 T-56 each fact that a graph rests on, changed once, refuses it and is named") {
  const std::vector<Guard> guards = captured_of(scenario_of_text(kText)).graphs.at(0).guards;
  CHECK(broken_by(guards, scenario_of_text(kText)) == "holds");
  CHECK(broken_by(guards, scenario_of_text(kText, {"mesh.tp=4"})) ==
        "mesh: {dp:2, tp:4} on ranks 0-7");
  CHECK(broken_by(guards, scenario_of_text(kText, {"world=5"})) == "world_size: 5");
  CHECK(broken_by(guards, scenario_of_text(kText, {"params.scale=0.25"})) == "params.scale: 0.25");
  CHECK(broken_by(guards, scenario_of_text(kText, {"params.hidden=8"})) ==
        "inputs.x: f32[7@dp, 8]");
  const auto text = [&](const char* what, const char* by) {
    return scenario_of_text(replaced(kText, what, by));
  };
  CHECK(broken_by(guards, text("7@dp", "7@tp")) == "inputs.x: f32[7@tp, 6]");
  CHECK(broken_by(guards, text(", requires_grad = true", "")) == "inputs.w: f32[6, 4@tp]");
  CHECK(broken_by(guards, text("dp = 2\n", "dp = 2\nranks = [[3, 2], [1, 0]]\n")) ==
        "mesh: {dp:2, tp:2} on ranks 3,2,1,0");
  CHECK(broken_by(guards, text("seed = 3\n", "seed = 3\nplanner = \"bytes\"\n")) ==
        "planner: bytes");
  CHECK(
      broken_by(guards, text("[params]", "[topology]\ntp = { gbps = 400, us = 1.5 }\n[params]")) ==
      "prices: tp 400 GB/s 1.5 us");
  const std::string rule = "[[rule]]\nop = \"mm\"\nrule = \"mk,kn->mn\"\n[params]";
  CHECK(broken_by(guards, text("[params]", rule.c_str())).starts_with("rules: "));
  const std::string forbid = std::string(kText) + "[expect]\nimplicit = \"forbid\"\n";
  CHECK(broken_by(guards, scenario_of_text(forbid)) == "implicit: forbid");
  // Parameters that the program does not read have no guard; elements of inputs neither.
  CHECK(broken_by(guards, scenario_of_text(kText, {"params.unused=9"})) == "holds");
  CHECK(broken_by(guards, scenario_of_text(kText, {"seed=4"})) == "holds");
}

TEST_CASE("T-4 guards are in order, each once, with the line that needed them first") {
  const std::vector<Guard> guards = captured_of(scenario_of_text(kText)).graphs.at(0).guards;
  std::vector<std::string> sources;
  for (const Guard& guard : guards) sources.push_back(guard.source);
  CHECK(sources == std::vector<std::string>{"mesh", "world_size", "planner", "rules", "prices",
                                            "implicit", "inputs.x", "inputs.w", "params.scale"});
  for (const Guard& guard : guards) CHECK(guard.line == 16);
  CHECK(guards[0].kind == Guard::Kind::kIdentity);
  CHECK(guards[6].kind == Guard::Kind::kType);
  const Error error = refusal_of({guards[8], "0.25"});
  CHECK(error.text() ==
        "the graph does not fit: params.scale is 0.25, and was 0.5\n"
        "  at          line 16 needed it\n"
        "  fix         capture the program again");
}

TEST_CASE("T-57 X-58 a program that depends on the rank has a graph for each class of ranks") {
  const std::string text =
      replaced(kText, "y = (x @ w) * scale", "y = x @ w\nif rank == 3:\n    y = y * scale\n");
  const Captured captured = captured_of(scenario_of_text(text));
  REQUIRE(captured.graphs.size() == 2);
  CHECK(captured.graphs[0].guards.back().kind == Guard::Kind::kRank);
  CHECK(captured.graphs[0].guards.back().expected == "ranks 0-2");
  CHECK(captured.graphs[1].guards.back().expected == "rank 3");
  // Rank 3 multiplies in line 18; the others continue with the loss.
  CHECK(captured.graphs[1].guards.back().line == 18);
  CHECK(captured.graphs[0].guards.back().line == 20);
  OpRegistry registry;
  register_all_ops(registry);
  const ReplayRun replayed = replay_on_ranks(captured.graphs, registry, {});
  CHECK(compared(captured, replayed).ok());
  // Without its graph a rank is refused.
  const ReplayRun alone = replay_on_ranks({captured.graphs[0]}, registry, {});
  REQUIRE(alone.run.error.has_value());
  CHECK(alone.run.error->summary() == "the file has no graph for rank 3");
  CHECK(*alone.run.error->find("has") == "that of ranks 0-2, which part at line 20");
}

TEST_CASE("T-5 T-6 a read of the program is a break with its line, and counted") {
  const std::string text =
      replaced(kText, "loss.backward()", "if loss.item() > 0:\n    loss = loss * 2\n");
  const Captured captured = captured_of(scenario_of_text(text));
  const auto breaks = breaks_of(captured.graphs.at(0));
  REQUIRE(breaks.size() == 1);
  CHECK(breaks[0].text() ==
        "data-dependent value\n"
        "  context      %6 is read in line 18\n"
        "  explanation  what follows may rest on its elements: it holds while they are the same\n"
        "  hint         keep it a tensor: where(), masked_fill()\n"
        "  hint         capture the program again on the inputs that it is to run on\n");
  CHECK(counted(breaks) == std::map<std::string, std::int64_t>{{"data-dependent value", 1}});
}

}  // namespace
}  // namespace shardlab
