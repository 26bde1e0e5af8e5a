// verdict.h - whether the values of a run are right: which single-device runs there are to compare
// with, and how their answers become one outcome. Private to the files that run scenarios.
#pragma once

#include <memory>
#include <optional>

#include "sim/judge/scenario_run.h"
#include "sim/run/program_run.h"

namespace shardlab {

class Verification;

/// All arguments outlive it.
class Verdicts {
 public:
  Verdicts(const Run& run, ScenarioJudgement& judgement, const ProgramRun& ranks);
  ~Verdicts();
  Verdicts(const Verdicts&) = delete;
  Verdicts& operator=(const Verdicts&) = delete;

  /// The first assert_close of the program that does not hold. Runs the program in f64 if it has
  /// any.
  std::optional<Error> failed_assertion();
  /// Warns of the branch at which ranks parted that now wait for each other.
  void explain_failure();
  /// Fills in `values` and `not_verified` from what the ranks recorded. Runs the program alone, and
  /// in f64 on the ranks where the program leaves the distributed world or its dtypes leave a
  /// doubt.
  void verify();

 private:
  ScenarioJudgement& judgement_;
  const ProgramRun& ranks_;
  std::unique_ptr<Verification> verification_;  ///< null where only shapes are known
};

}  // namespace shardlab
