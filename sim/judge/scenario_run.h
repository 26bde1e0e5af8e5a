// scenario_run.h - one scenario on simulated ranks: run, traced, checked against the single-device
// run and against its own expectations.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/shared/fabric_log.h"
#include "sim/judge/expectations.h"
#include "sim/run/run.h"
#include "sim/verify/step_verdict.h"
#include "sim/verify/verify.h"

namespace shardlab {

/// The judgement of a run. If the report is made in another rank's process, only `met_elsewhere` is
/// known here.
struct ScenarioJudgement {
  /// In the order of verify_values(): that of the first rank that recorded a value.
  std::vector<ValueReport> values;
  StepVerdict steps;                  ///< on every call of the ranks
  std::string not_verified;           ///< the reason why nothing was verified, or empty
  std::string not_verified_fix;       ///< the fix for the user, or empty
  std::vector<std::string> warnings;  ///< about values that could not be decided
  std::vector<ExpectationReport> expectations;
  std::string promise;  ///< Promise::headline(), where messages or several groups occur
  /// Posts and waits of all ranks; null if they are not known.
  std::shared_ptr<const FabricLog> calls;
  Cause parted;  ///< of ranks that wait for each other: the branch that separated them, or empty
  bool failure_expected = false;  ///< [expect] asked for the error, verdict or mistake of the run
  bool met_elsewhere = false;     ///< the finding of the process that reports
};

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
