// Verifying a run takes memory of its own, which does not count as the ranks': their memory is the
// same with and without verification.
#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "sim/judge/scenario_run.h"
#include "tests/property/shipped_scenarios.h"

namespace shardlab {
namespace {

using namespace test;

MemoryReport memory_of(Scenario scenario, Verify verify) {
  scenario.expect.verify = verify;
  return run_scenario(scenario, all_ops(), {}).run.memory;
}

TEST_CASE("a rank of a verified run holds as much as one of a run that is not verified") {
  for (const ShippedScenario& shipped : shipped_scenarios()) {
    CAPTURE(shipped.name);
    // The progress of the ranks differs.
    if (shipped.scenario.expect.error || shipped.scenario.expect.verdict) continue;
    const MemoryReport verified = memory_of(shipped.scenario, Verify::kEvery);
    const MemoryReport plain = memory_of(shipped.scenario, Verify::kNone);
    CHECK(verified.largest() == plain.largest());
    CHECK(plain.largest().bytes > 0);
  }
}

}  // namespace
}  // namespace shardlab
