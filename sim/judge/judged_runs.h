// judged_runs.h - the runs by which a run is judged: of one device, of [reference], and of the
// ranks once more in f64. Each is made when it is first asked for. Private to the files that judge.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/judge/judgement.h"
#include "sim/judge/parts_by_rank.h"
#include "sim/judge/stages.h"
#include "sim/run/one_device.h"
#include "sim/run/program_run.h"
#include "sim/verify/labels/suspects.h"

namespace shardlab {

class EarlyJudge;

/// One choice of rank and world for the single-device run, in the program's dtypes and in f64.
struct Alone {
  AloneOptions options;
  AloneRuns single;
  AloneRuns reference;  ///< of no run until it is needed
  const std::string& failure() const {
    return single.failure.empty() ? reference.failure : single.failure;
  }
  bool runs() const { return failure().empty(); }
};

/// Larger values are not compared: three as doubles, and marks of their pieces.
inline std::int64_t most_compared_elements(const MemoryLimits& memory) {
  constexpr std::int64_t kBytesEach = 64;
  return memory.available_bytes / kBytesEach;
}

/// A program that reads its rank has one single-device run per rank: up to this many.
std::int64_t most_reference_runs(const Scenario& scenario);
std::vector<const Recording*> recordings_of(const ProgramRun& run);
/// A claim, or a value that is kept to the end, with which one device does not agree.
bool is_open_claim(const ValueReport& report);

/// The arguments outlive it.
class JudgedRuns {
 public:
  JudgedRuns(const Run& run, ScenarioJudgement& judgement, const ProgramRun& ranks,
             const EarlyJudge* early);

  const Run& run;
  ScenarioJudgement& judgement;
  const ProgramRun& ranks;
  const ProgramTraits traits;
  VerifyInputs inputs;  ///< from the runs so far
  Alone alone;
  std::optional<PartsByRank> parts;  ///< once the ranks have run in f64
  std::unique_ptr<Stages> stages;    ///< null: one device is enough

  const DefUse& flow();
  DefUse::Ids before(const ValueReport& report) { return flow().made_of(nodes_of(flow(), report)); }
  bool follows(const ValueReport& report, const DefUse::Ids& from) {
    return meet(nodes_of(flow(), report), from);
  }

  bool is_in_stage(const ValueReport& report) const {
    return stages && stages->stage_of(report) >= 0;
  }
  /// All that a value is compared with.
  const VerifyInputs& inputs_of(const ValueReport& report) const {
    return is_in_stage(report) ? stages->inputs(stages->stage_of(report)) : inputs;
  }

  AloneOptions alone_options(ReportedWorld world, std::int64_t runs) const;
  /// `alone.single` becomes what values are compared with.
  void take_alone();
  void run_in_f64(Alone& one);
  void run_alone_in_f64();
  void take_alone_in_f64();
  void run_reference();
  void run_reference_in_f64();
  /// The ranks' run in f64, which is made once.
  const ProgramRun& ranks_in_f64();
  void take_ranks_in_f64();
  void prepare_in_f64(ProgramRun& again) const;
  ScenarioOptions simulated() const;

  /// The steps of the ranks and of one device, in f64, with all operands and results. Made once;
  /// null if they do not run.
  const std::vector<MatchedCall>* matched();
  /// The same for a value; `of_stage` is filled in if they are a stage's.
  const std::vector<MatchedCall>* matched_of(const ValueReport& report,
                                             std::vector<MatchedCall>& of_stage);
  std::vector<MatchedCall> steps_of(const CallLog& calls, const ValueReport& report) const;
  /// After matched().
  const CallLog& logged_ranks() const { return logs_->ranks; }

 private:
  struct CallLogs {
    explicit CallLogs(std::int64_t ranks) : ranks(ranks), alone(1) {}
    CallLog ranks, alone;
    std::vector<MatchedCall> matched;
    bool complete = false;  // all of them ran to their ends
  };

  void note_failure();
  bool takes_known_f64();
  std::set<std::string> names_in_doubt() const;
  void run_open_in_f64();
  bool reference_runs();
  bool log_calls(CallLogs& logs);

  std::optional<DefUse> flow_;
  Scenario reference_program_;
  Alone given_;
  std::optional<ProgramRun> in_f64_;
  std::optional<CallLogs> logs_;
};

}  // namespace shardlab
