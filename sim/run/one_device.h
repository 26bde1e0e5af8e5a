// one_device.h - the single-device run: the program alone, on plain tensors. Private to the files
// that run scenarios.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/run/program_run.h"

namespace shardlab {

/// What the program is told about the world it runs in.
enum class ToldWorld : std::uint8_t {
  kTrue,  ///< the numbers of the real one
  kOne,   ///< that there is one rank, number 0
};

/// One run, or one per rank that the program is told to be. A run that fails has only the values
/// that it came to.
struct AloneRuns {
  std::vector<std::unique_ptr<ProgramRun>> runs;
  std::vector<const Recording*> recordings;  ///< by told rank; up to where a run failed
  std::string failure;                       ///< of the first run that failed, or empty
};

/// How the program is run alone.
struct AloneOptions {
  const Scenario* scenario = nullptr;  ///< its program; outlives the runs
  const MeshLayout* layout = nullptr;  ///< the real one
  const OpRegistry* registry = nullptr;
  const AnswerLog* answers = nullptr;  ///< of a rank of the real run, to follow; null: none
  std::int64_t answers_rank = 0;       ///< that rank
  Precision precision = Precision::kDeclared;
  ToldWorld world = ToldWorld::kTrue;
  std::int64_t told_ranks = 1;       ///< runs, told the numbers from 0 on
  std::int64_t told_rank = 0;        ///< of a single run
  CallListener* listener = nullptr;  ///< hears the calls of a single run; may be null
};

/// Runs the program once for each told rank; later runs go on when one fails.
AloneRuns run_alone(const AloneOptions& alone, Propagator& propagator,
                    const ScenarioOptions& options);

}  // namespace shardlab
