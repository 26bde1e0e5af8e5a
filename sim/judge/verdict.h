// verdict.h - the verdict on the values of a run: the single-device runs to compare with, and one
// outcome from their answers. Private to the files that run scenarios.
#pragma once

#include <memory>
#include <optional>

#include "sim/judge/judgement.h"
#include "sim/run/program_run.h"

namespace shardlab {

class EarlyJudge;
class JudgedRuns;

/// All arguments outlive it.
class Verdicts {
 public:
  /// `early`: what it has judged is let go; null: nothing is.
  Verdicts(const Run& run, ScenarioJudgement& judgement, const ProgramRun& ranks,
           const EarlyJudge* early = nullptr);
  ~Verdicts();
  Verdicts(const Verdicts&) = delete;
  Verdicts& operator=(const Verdicts&) = delete;

  /// The first assert_close of the program that does not hold. Runs the program in f64 if it has
  /// any.
  std::optional<Error> failed_assertion();
  /// Warns of the branch at which ranks separated that now wait for each other.
  void explain_failure();
  /// Fills in `values` and `not_verified` from the ranks' recordings. Runs the program alone, and
  /// in f64 on the ranks if the program leaves the distributed world or its dtypes leave a doubt.
  void verify();
  /// After verify(): a value is off, and elements that explain it are gone. Run it once more.
  bool lacks_elements() const;

 private:
  ScenarioJudgement& judgement_;
  const ProgramRun& ranks_;
  std::unique_ptr<JudgedRuns> runs_;  ///< null if only shapes are known
};

}  // namespace shardlab
