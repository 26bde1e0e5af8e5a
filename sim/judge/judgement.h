// judgement.h - the values, calls and expectations of a run, judged.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/shared/fabric_log.h"
#include "sim/judge/expectations.h"
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

}  // namespace shardlab
