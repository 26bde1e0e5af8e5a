// scenario_run.h - one scenario on simulated ranks: run, traced, checked against the single-device
// run and against its own expectations.
#pragma once

#include <cstdint>

#include "sim/judge/judgement.h"
#include "sim/run/run.h"

namespace shardlab {

/// Moved as a whole, as the run is.
struct ScenarioResult {
  // The judgement points to nothing in the run; the run's events point into its propagator.
  Run run;
  ScenarioJudgement judgement;

  /// True when the run is as expected: every expectation met, and no error, no wrong value and
  /// no wrong call but those expected. The exit code follows it.
  bool met() const;
  /// For a run that is not met, the line of the file to look at first; 0: none is known.
  std::int64_t line_to_look_at() const;
};

/// Whether values may be judged while the ranks run, and then be let go: nothing else asks for
/// their elements at the end.
bool judges_early(const Scenario& scenario, const ScenarioOptions& options);

/// Fails with ScenarioError for a scenario that can't run as written (exit code 2); errors on the
/// ranks are in the result. `registry` outlives it.
ScenarioResult run_scenario(const Scenario& scenario, const OpRegistry& registry,
                            const ScenarioOptions& options);

}  // namespace shardlab
