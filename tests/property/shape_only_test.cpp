// Every shipped scenario on a shape-only mesh does what it does on ranks that compute.
#include <doctest/doctest.h>

#include "ops/register.h"
#include "sim/report/event_log.h"
#include "sim/verify/scenario_run.h"
#include "tests/property/shipped_scenarios.h"

namespace shardlab {
namespace {

using namespace test;

const OpRegistry& all_ops() {
  static const std::unique_ptr<const OpRegistry> registry = [] {
    auto made = std::make_unique<OpRegistry>();
    register_all_ops(*made);
    return made;
  }();
  return *registry;
}

// What one run did, by rank.
struct Seen {
  std::vector<std::string> decisions;
  std::vector<std::string> collectives;
  std::int64_t logical_bytes = 0;
  std::vector<std::string> expectations;
  std::string error;
  std::string verdict;
};

Seen run_on(const std::string& backend, const Scenario& scenario) {
  Seen seen;
  ScenarioOptions options;
  options.backend = backend;
  options.other_ranks = TraceDetail::kEvents;
  options.traced = [&](const std::vector<const Trace*>& ranks) {
    for (const Trace* trace : ranks) {
      seen.decisions.push_back(decision_log(trace->events()));
      seen.collectives.push_back(collective_log(trace->events()));
    }
  };
  const ScenarioResult result = run_scenario(scenario, all_ops(), options);
  seen.logical_bytes = result.memory.logical_rank_bytes;
  for (const ExpectationReport& report : result.expectations) {
    seen.expectations.push_back(report.what + (report.met ? " met " : " not met ") + report.text);
  }
  if (result.error) seen.error = result.error->text();
  if (result.verdict) {
    // Which of the ranks that fail is first depends on the scheduler.
    const bool failed = result.verdict->kind == VerdictKind::kRankFailed;
    seen.verdict = failed ? result.verdict->cause : summary(*result.verdict);
    if (!failed) seen.verdict += text(*result.verdict);
  }
  CHECK(result.met());
  return seen;
}

TEST_CASE(
    "a shipped scenario decides and calls the same, on every rank, as on ranks that compute") {
  std::size_t ranks = 0, collectives = 0;
  for (const ShippedScenario& shipped : shipped_scenarios()) {
    CAPTURE(shipped.name);
    const Seen threads = run_on("threads", shipped.scenario);
    const Seen shapes = run_on("fake", shipped.scenario);
    CHECK(shapes.expectations == threads.expectations);
    CHECK(shapes.error == threads.error);
    CHECK(shapes.verdict == threads.verdict);
    // How far other ranks get before they hear of a failure does, too.
    if (!threads.error.empty()) {
      CHECK(shapes.decisions[0] == threads.decisions[0]);
      CHECK(shapes.collectives[0] == threads.collectives[0]);
      continue;
    }
    CHECK(shapes.logical_bytes == threads.logical_bytes);
    REQUIRE(shapes.decisions.size() == threads.decisions.size());
    for (std::size_t rank = 0; rank < threads.decisions.size(); ++rank) {
      CAPTURE(rank);
      CHECK(shapes.decisions[rank] == threads.decisions[rank]);
      CHECK(shapes.collectives[rank] == threads.collectives[rank]);
      collectives += threads.collectives[rank].empty() ? 0 : 1;
      ++ranks;
    }
  }
  CHECK(ranks > 80);
  CHECK(collectives > 40);
}

}  // namespace
}  // namespace shardlab
