// scenario_run.h - one scenario on simulated ranks: run, traced, checked against one device and
// against its own expectations.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "propagate/propagator.h"
#include "sim/report/trace.h"
#include "sim/scenario/scenario.h"
#include "sim/verify/expectations.h"
#include "sim/verify/recording.h"
#include "sim/verify/step_verdict.h"
#include "sim/verify/verify.h"
#include "sim/world/devices.h"
#include "sim/world/sharing_device.h"
#include "sim/world/world.h"

namespace shardlab {

/// Around the device of all ranks, numbered [0, ranks); outlived by it.
using DeviceDecorator = std::function<std::unique_ptr<Device>(Device& device, std::int64_t ranks)>;

struct ScenarioOptions {
  std::string backend = "threads";
  SchedulerOptions schedule;
  std::optional<std::int64_t> workers;  ///< of `pool`; none: as many as pay
  KernelSharing sharing = KernelSharing::kOn;
  CollectiveChecks checks = CollectiveChecks::kOff;
  std::optional<MemoryLimits> memory;              ///< none: whatever it takes
  std::optional<PlannerKind> planner;              ///< instead of the scenario's
  CommunicatorDecorator communicator;              ///< on the ranks, never on the one device
  DeviceDecorator around_device;                   ///< likewise
  std::int64_t step_limit = 1'000'000;             ///< passes through while loops, on each rank
  DeviceChoice device;                             ///< of the ranks, and of the one device
  std::int64_t keep_elements = 0;                  ///< of each value, for the report; 0: none
  TraceDetail other_ranks = TraceDetail::kCounts;  ///< than the reporting one, which keeps events
  /// Told what every rank recorded, by rank, once the run is over and before the values go. On a
  /// shape-only mesh, what the first rank of each class recorded.
  std::function<void(const std::vector<Recording>&)> recorded;
  /// Told what every rank did, by rank; on a shape-only mesh of up to 4,096 ranks, else nobody.
  std::function<void(const std::vector<const Trace*>&)> traced;
};

/// "pool", ...; "single" where each rank has a process of its own.
std::string_view scheduler_name(const ScenarioOptions& options);

/// The most that was ever held. Logical: every Buffer a rank holds, in full, on the rank that holds
/// most; physical: what the process allocated for all ranks, which share Buffers.
struct MemoryReport {
  std::int64_t logical_rank_bytes = 0;
  std::int64_t physical_bytes = 0;
};

/// Ranks of a shape-only mesh that do the same with the same shapes.
struct ClassReport {
  std::int64_t first_rank = 0;
  std::int64_t size = 0;
  std::string where;               ///< "dp 0-7, tp 0-63", "ranks 0,3"; empty: the whole mesh
  std::int64_t logical_bytes = 0;  ///< the most that a rank of it held
  double sent_bytes = 0;           ///< by each of its ranks
};

/// An input as the reporting rank holds it.
struct InputReport {
  std::string name;
  std::string type;
  std::int64_t local_bytes = 0;
};

struct ScenarioResult {
  std::unique_ptr<Arena> arena;  ///< of the layout and all specs, where they have one of their own
  Scenario scenario;
  ScenarioOptions options;
  const MeshLayout* layout = nullptr;
  std::shared_ptr<const OpRegistry> own_ops;  ///< with the scenario's rules; null: the caller's
  std::unique_ptr<Propagator> propagator;     ///< events point into its decisions
  std::vector<InputReport> inputs;
  std::int64_t reporting_rank = 0;  ///< the mesh's first rank: whose events these are
  std::vector<TraceEvent> events;
  std::vector<CollectiveCounts> counts;  ///< by rank; on a shape-only mesh by class
  std::int64_t implicit_count = 0;
  std::vector<std::vector<PrintedLine>> printed;  ///< by rank; on a shape-only mesh by class
  std::vector<std::string> warnings;
  std::vector<std::string> ran_on_host;  ///< ops that the device has left to the host
  std::vector<ValueReport> values;
  StepVerdict steps;             ///< on every call of the ranks
  std::string not_verified;      ///< why nothing was verified, or empty
  std::string not_verified_fix;  ///< what the user can do about it, or empty
  std::vector<ExpectationReport> expectations;
  std::optional<Error> error;  ///< of the run on the ranks
  std::optional<Verdict> verdict;
  bool error_expected = false;  ///< [expect] asked for this error or verdict
  MemoryReport memory;
  std::optional<SharingStats> kernels;  ///< on the ranks, where they may be shared

  /// The report is made in another rank's process; nothing else is known here but whether it is as
  /// expected.
  bool reported_elsewhere = false;
  bool met_elsewhere = false;
  std::vector<ClassReport> classes;   ///< of a shape-only mesh; the reporting rank's comes first
  std::vector<std::size_t> class_of;  ///< by rank, of a shape-only mesh of up to 4,096 ranks

  bool shapes_only() const { return !classes.empty(); }
  bool met() const;
};

/// Fails with ScenarioError for what can't run as written (exit code 2); what goes wrong on the
/// ranks is in the result. `registry` outlives it.
ScenarioResult run_scenario(const Scenario& scenario, const OpRegistry& registry,
                            const ScenarioOptions& options);

}  // namespace shardlab
