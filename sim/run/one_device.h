// one_device.h - the single-device run: the program alone, on plain tensors. Private to the files
// that run scenarios.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/run/program_run.h"
#include "sim/run/run.h"

namespace shardlab {

/// The world that the program sees.
enum class ReportedWorld : std::uint8_t {
  kTrue,  ///< the size of the real world, and a rank in it
  kOne,   ///< one rank, number 0
};

/// One run, or one per rank number that the program sees. A run that fails has only its values so
/// far.
struct AloneRuns {
  std::vector<std::unique_ptr<ProgramRun>> runs;
  std::vector<const Recording*> recordings;  ///< by rank number; up to the place where a run failed
  std::string failure;                       ///< of the first run that failed, or empty
};

/// A run that was made before the one that it judges.
struct KnownAlone {
  Run run;  ///< the recordings point into it
  AloneRuns runs;
  std::shared_ptr<KnownAlone> in_f64 = nullptr;  ///< the same in f64; null: not run yet
};

/// Options for running the program alone.
struct AloneOptions {
  const Scenario* scenario = nullptr;  ///< its program; outlives the runs
  const MeshLayout* layout = nullptr;  ///< the real one
  const OpRegistry* registry = nullptr;
  const AnswerLog* answers = nullptr;  ///< of a rank of the real run, to follow; null: none
  std::int64_t answers_rank = 0;       ///< the rank of `answers`
  Precision precision = Precision::kDeclared;
  std::uint64_t nudge = 0;  ///< as of ProgramRun
  ReportedWorld world = ReportedWorld::kTrue;
  std::int64_t reported_ranks = 1;              ///< number of runs, as ranks 0, 1, ...
  std::int64_t reported_rank = 0;               ///< of a single run
  CallListener* listener = nullptr;             ///< hears the calls of a single run; may be null
  ValueDrain* drain = nullptr;                  ///< as of ProgramRun
  const std::set<SourceSpan>* parts = nullptr;  ///< as of ProgramRun
  PartListener on_part;
};

/// Runs the scenario's program alone, without the answers of a rank: it must not ask for any.
/// `drain` and `nudge` as of ProgramRun; the drain outlives the run.
///   fails  as the program does; ScenarioError: a scenario that cannot run as written
std::shared_ptr<KnownAlone> run_first_alone(const Scenario& scenario, const OpRegistry& registry,
                                            Precision precision = Precision::kDeclared,
                                            ValueDrain* drain = nullptr, std::uint64_t nudge = 0);

/// The same; a program that fails has its values so far, and `runs.failure`.
std::shared_ptr<KnownAlone> run_alone_as_far(const Scenario& scenario, const OpRegistry& registry,
                                             Precision precision, ValueDrain* drain,
                                             std::uint64_t nudge = 0);

/// Runs the program once for each rank number; later runs continue when one fails.
AloneRuns run_alone(const AloneOptions& alone, Propagator& propagator,
                    const ScenarioOptions& options);

}  // namespace shardlab
