#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "sim/judge/scenario_run.h"
#include "sim/report/run_json.h"
#include "tests/property/recorded_numbers.h"
#include "tests/property/shipped_scenarios.h"

namespace shardlab {
namespace {

using namespace test;

struct Kept {
  std::string json;
  std::string json_without_memory;  ///< and under the name of the default scheduler
  RecordedNumbers numbers;
  bool by_order = false;  ///< a message is taken from whoever comes first
};

Kept run_under(const Scenario& scenario, const OpRegistry& registry, SchedulerKind kind,
               std::uint64_t seed = 0) {
  Kept seen;
  ScenarioOptions options;
  options.schedule.kind = kind;
  options.schedule.seed = seed;
  options.recorded = [&](const std::vector<Recording>& ranks) { seen.numbers = numbers_of(ranks); };
  ScenarioResult result = run_scenario(scenario, registry, options);
  seen.json = run_json(result);
  seen.by_order = takes_what_comes_first(result);
  result.run.options.schedule.kind = SchedulerKind::kPool;
  result.run.memory = {};
  seen.json_without_memory = run_json(result);
  return seen;
}

TEST_CASE("B-4 a shipped scenario run twice gives the same bytes of JSON and of every value") {
  OpRegistry registry;
  register_all_ops(registry);
  for (const ShippedScenario& shipped : shipped_scenarios()) {
    CAPTURE(shipped.name);
    const Kept first = run_under(shipped.scenario, registry, SchedulerKind::kPool);
    const Kept second = run_under(shipped.scenario, registry, SchedulerKind::kPool);
    CHECK(first.json == second.json);
    CHECK(different_bits(first.numbers, second.numbers).empty());
  }
}

// Memory is left out: a Buffer that all ranks share is counted for the rank that came last, which
// depends on the scheduler. Values of a run that fails are left out, too: the progress of other
// ranks differs.
TEST_CASE(
    "B-2 B-10 a shipped scenario gives the same JSON and every value bitwise under any scheduler") {
  OpRegistry registry;
  register_all_ops(registry);
  std::size_t values = 0, by_order = 0;
  for (const ShippedScenario& shipped : shipped_scenarios()) {
    CAPTURE(shipped.name);
    const Kept pool = run_under(shipped.scenario, registry, SchedulerKind::kPool);
    // Its warning is that any other order of ranks may give other values, or none.
    if (pool.by_order) {
      ++by_order;
      continue;
    }
    std::vector<Kept> others = {run_under(shipped.scenario, registry, SchedulerKind::kThreads)};
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      others.push_back(run_under(shipped.scenario, registry, SchedulerKind::kSeeded, seed));
    }
    const Expectation& expect = shipped.scenario.expect;
    for (const Kept& other : others) {
      CHECK(pool.json_without_memory == other.json_without_memory);
      if (expect.error || expect.verdict) continue;
      CHECK(different_bits(pool.numbers, other.numbers).empty());
    }
    for (const auto& rank : pool.numbers) values += rank.size();
  }
  CHECK(values > 100);
  CHECK(by_order == 2);  // hangs/any_sender, hangs/any_sender_and_buffers
}

}  // namespace
}  // namespace shardlab
