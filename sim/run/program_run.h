// program_run.h - one program on the ranks of one world, or on one rank of each class, and its
// records. Private to the files that run scenarios.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/language/run/interpreter.h"
#include "sim/run/call_listener.h"
#include "sim/run/inputs.h"
#include "sim/run/memory_timeline.h"
#include "sim/run/recording.h"
#include "sim/run/reference_calls.h"
#include "sim/run/run_options.h"

namespace shardlab {

/// `rank` is an index of recordings; the rest as of Recording::on_part. Called by several ranks at
/// a time.
using PartListener =
    std::function<std::optional<Value>(std::size_t rank, SourceSpan expression, std::int64_t before,
                                       const Value& whole, const Value& part)>;

/// The program and its options, then its records. One object per world of a verdict; filled in by
/// execute().
struct ProgramRun {
  std::unique_ptr<Device> device;  ///< first, like the accounts: all values below are on them
  std::unique_ptr<Device> around_device;  ///< the one that ranks get in its place; null: itself
  std::vector<MemoryAccount> accounts;
  std::optional<MemoryTimeline> timeline;  ///< of the reporting rank, if it is asked for
  const Scenario* scenario = nullptr;
  const OpRegistry* registry = nullptr;
  const MeshLayout* layout = nullptr;
  const MeshLayout* reported = nullptr;
  Precision precision = Precision::kDeclared;
  std::uint64_t nudge = 0;  ///< not 0: inputs are nudged() with this seed
  Tensors tensors = Tensors::kOnMesh;
  std::int64_t reporting_rank = 0;
  std::int64_t reported_rank = -1;      ///< value of `rank` in the program; -1: the truth
  std::int64_t reported_world = -1;     ///< value of `world_size` in the program; -1: the truth
  AnswerLog answers;                    ///< of the reporting rank, for single-device runs
  std::optional<AnswerReader> follows;  ///< the answers of another run, from their beginning
  std::int64_t step_limit = 1'000'000;
  std::optional<TypeMode> types;  ///< as in ScenarioOptions
  std::string backend;            ///< of the ranks
  std::vector<Trace> traces;
  std::vector<Recording> recordings;
  /// Runs on each rank in place of the scenario's program; none: that.
  std::function<void(const RunsFor& runs, const std::vector<GivenInput>& inputs)> body;
  CallListener* listener = nullptr;  ///< hears the calls of all ranks; may be null
  ValueDrain* drain = nullptr;       ///< of the recordings; null: every value is kept
  /// Expressions that take a part out of a value, and who hears of it on each rank (a recording's
  /// on_part); null: none.
  const std::set<SourceSpan>* parts = nullptr;
  PartListener on_part;
  std::vector<InputReport> inputs;
  SharedInputs shared_inputs;
  std::optional<Error> error;
  std::optional<Verdict> verdict;
  std::uint64_t steps = 0;  ///< as in WorldResult
  MemoryReport memory;
  std::optional<SharingStats> kernels;
  std::vector<ClassReport> classes;   ///< of a shape-only mesh; traces and recordings are by class
  std::vector<std::size_t> class_of;  ///< by rank, of small ones
};

/// The running rank's part; its trace, recording and account are those of index `runs.index`.
void run_on_rank(ProgramRun& run, RankContext& rank, const RunsFor& runs);

/// Takes over the outcome of the world. A rank that failed has not sent its last collective.
void take_outcome(ProgramRun& run, const WorldResult& outcome);

/// The world that the options and the scenario ask for; no device yet.
WorldOptions world_of(const ProgramRun& run, Propagator& propagator, std::int64_t ranks,
                      const ScenarioOptions& options);

/// Runs the program on ranks 0 to `ranks` - 1, or on one of each class, and fills in the records.
///   fails  Unsupported: more than 4,096 classes
void execute(ProgramRun& run, Propagator& propagator, std::int64_t ranks,
             const ScenarioOptions& options);

/// Traces by rank. Empty if classes are not listed by rank.
std::vector<const Trace*> traces_by_rank(const ProgramRun& run);

}  // namespace shardlab
