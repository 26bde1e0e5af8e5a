// schedules.h - a scenario under many schedules: each seed is one interleaving of its ranks.
#pragma once

#include <cstdint>

#include "sim/judge/scenario_run.h"

namespace shardlab {

/// Seeds first_seed, first_seed + 1, ...
struct ScheduleRange {
  std::uint64_t first_seed = 0;
  std::int64_t count = 1;  ///< at least 1
};

/// The result of many schedules.
struct ScheduleSearch {
  /// The result of the first schedule that failed, else of the last. A value whose bits differ from
  /// those under the first schedule is a failure: an unmet expectation "schedule".
  ScenarioResult result;
  std::int64_t passed = 0;  ///< schedules before the failure
  std::uint64_t steps = 0;  ///< ranks that were drawn, in the longest of them
};

/// Runs the scenario under one schedule after the other until one fails: the first is drawn step
/// by step, the others are those of PCT over its number of steps. The scheduler of `options`
/// is replaced.
///   fails  as run_scenario
ScheduleSearch try_schedules(const Scenario& scenario, const OpRegistry& registry,
                             ScenarioOptions options, const ScheduleRange& range);

}  // namespace shardlab
