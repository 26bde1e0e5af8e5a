// run.h - the run of a scenario's program on its ranks: everything that a report says of a run
// before it is judged.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/verdict.h"
#include "propagate/propagator.h"
#include "sim/run/memory_timeline.h"
#include "sim/run/run_options.h"
#include "sim/scenario/scenario.h"

namespace shardlab {

class CallListener;
struct ProgramRun;

/// Counts of the requests to a cache, and of the entries that had to be made: both are the same in
/// every order of ranks.
struct CacheUse {
  std::uint64_t asked = 0, made = 0;
};

/// Pointers inside point to other members, so that it is moved as a whole and not copied.
struct Run {
  std::unique_ptr<Arena> arena;  ///< of the layout and all specs, if they have one of their own
  Scenario scenario;
  ScenarioOptions options;
  /// The layout of the program's tensors; in `arena`, or in that of the process.
  const MeshLayout* layout = nullptr;
  std::shared_ptr<const OpRegistry> own_ops;  ///< with the scenario's rules; null: the caller's
  const OpRegistry* registry = nullptr;       ///< own_ops, or the caller's
  std::unique_ptr<Propagator> propagator;     ///< events point into its decisions
  std::vector<InputReport> inputs;
  /// Meshes of the program and their names, in the order in which it gave them.
  std::vector<std::pair<const MeshLayout*, std::string>> mesh_names;
  std::int64_t reporting_rank = 0;  ///< the rank of these events: the mesh's first, or as asked
  /// The events of the reporting rank, in order; they point into `arena` and `propagator`.
  std::vector<TraceEvent> events;
  /// The same of all other ranks, by rank, if they were asked for.
  std::vector<std::vector<TraceEvent>> events_of_others;
  std::vector<CollectiveCounts> counts;  ///< by rank; on a shape-only mesh by class
  std::int64_t implicit_count = 0;
  std::vector<std::vector<PrintedLine>> printed;  ///< by rank; on a shape-only mesh by class
  std::vector<std::int64_t> live_microbatches;    ///< by rank; of a pipeline schedule that it reads
  ScheduleRows schedule;                          ///< its computations
  std::size_t traced_breaks = 0;  ///< of defs that became graphs, on the rank that has most
  std::vector<std::string> warnings;
  std::vector<std::string> ran_on_host;  ///< ops that the device has left to the host
  std::optional<Error> error;  ///< of the program; also an assert_close that is found not to hold
  /// The reason why the ranks could not continue: with it `error` is the same on every rank.
  std::optional<Verdict> verdict;
  std::vector<std::int64_t> lost;  ///< culprits whose processes are gone or silent
  std::uint64_t steps = 0;         ///< ranks that the scheduler `seeded` has drawn
  MemoryReport memory;
  std::vector<MemoryPoint> memory_timeline;  ///< of the reporting rank, if it was asked for
  std::optional<SharingStats> kernels;       ///< on the ranks, if they may be shared
  CacheUse decisions, plans;                 ///< of propagation and of redistributions
  /// The report is made in another rank's process: the events of ranks are not known here.
  bool reported_elsewhere = false;
  std::vector<ClassReport> classes;   ///< of a shape-only mesh; the reporting rank's comes first
  std::vector<std::size_t> class_of;  ///< by rank, of a shape-only mesh of up to 4,096 ranks

  /// True on a shape-only mesh, where values are not known and there is one run per class.
  bool shapes_only() const { return !classes.empty(); }
  /// A rank has received from any rank: values, and whether the program ends, depend on the order
  /// of ranks.
  bool takes_from_any() const {
    return std::ranges::any_of(counts, [](const auto& one) { return one.from_any > 0; });
  }
};

/// The ops that a scenario runs with: `all_ops`, some of them with rules of its own.
///   fails  ScenarioError: no such op, or no rule for it
std::shared_ptr<const OpRegistry> ops_of(const Scenario& scenario, const OpRegistry& all_ops);

/// A run that has not begun: everything that can be refused without running has been. `all_ops`
/// outlives it.
///   fails  ScenarioError: a scenario that cannot run as written
Run prepare_run(const Scenario& scenario, const OpRegistry& all_ops,
                const ScenarioOptions& options);

/// Runs the program on all ranks, or on one of each class, and fills in the rest of `run`. The
/// values that the ranks recorded are in `program`; both point into each other, and neither moves
/// any more. Errors on the ranks are in `run`. `listener` may be null.
void run_on_ranks(Run& run, CallListener* listener, ProgramRun& program);

}  // namespace shardlab
