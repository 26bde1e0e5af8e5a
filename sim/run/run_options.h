// run_options.h - how a scenario is run, and what is known of a run besides its values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_account.h"
#include "sim/record/progress.h"
#include "sim/record/trace.h"
#include "sim/run/recording.h"
#include "sim/scenario/scenario.h"
#include "sim/world/devices.h"
#include "sim/world/sharing_device.h"
#include "sim/world/world.h"

namespace shardlab {

/// Wraps the device of all ranks, which outlives the wrapper. Ranks are numbered [0, ranks).
using DeviceDecorator = std::function<std::unique_ptr<Device>(Device& device, std::int64_t ranks)>;

/// How to run, as the command line or a test says; what the file says is in the Scenario.
struct ScenarioOptions {
  /// One that is registered: `shardlab doctor` lists them.
  std::string backend = "threads";
  /// Which rank runs next, and the seed of that choice. Values do not depend on it.
  SchedulerOptions schedule;
  // OS threads that take turns with the ranks' fibers.
  std::optional<std::int64_t> workers;  ///< of `pool`; none: as many as pay
  /// Whether equal kernels of several ranks run once. Results are the same bit for bit.
  KernelSharing sharing = KernelSharing::kOn;
  /// Whether ranks in different processes compare their calls before they communicate (B-5).
  CollectiveChecks checks = CollectiveChecks::kOff;
  SendMode sends = SendMode::kRendezvous;          ///< of the program's messages
  std::optional<MemoryLimits> memory;              ///< none: whatever it takes
  std::optional<PlannerKind> planner;              ///< instead of the scenario's
  CommunicatorDecorator communicator;              ///< on the ranks, never in the single-device run
  DeviceDecorator around_device;                   ///< likewise
  std::int64_t step_limit = 1'000'000;             ///< passes through while loops, on each rank
  DeviceChoice device;                             ///< of the ranks, and of the single-device run
  Progress* progress = nullptr;                    ///< is told how far the run is; null: none
  std::int64_t keep_elements = 0;                  ///< of each value, for the report; 0: none
  bool strict = false;                             ///< a value that is not verified fails the run
  bool memory_timeline = false;                    ///< of the reporting rank, for the report
  std::optional<std::int64_t> reporting_rank;      ///< none: the mesh's first
  TraceDetail other_ranks = TraceDetail::kCounts;  ///< than the reporting one, which keeps events
  /// Told what every rank recorded, by rank, once the run is over and before the values go. On a
  /// shape-only mesh, what the first rank of each class recorded.
  std::function<void(const std::vector<Recording>&)> recorded;
  /// Told what every rank did, by rank; on a shape-only mesh of up to 4,096 ranks, else nobody.
  std::function<void(const std::vector<const Trace*>&)> traced;
};

/// "pool", ...; "single" where each rank has a process of its own.
std::string_view scheduler_name(const ScenarioOptions& options);

/// When a rank held most, for the first time: every Buffer counts in full.
struct PeakReport {
  std::int64_t bytes = 0;
  HeldBytes held{};  ///< what for; their sum is `bytes`
  HeldBytes most{};  ///< for each purpose at any time
  /// Of the scenario file, from 1; in backward that of the op whose gradient ran. 0: before the
  /// program's first line.
  std::int32_t line = 0;
  Pass pass = Pass::kForward;
  bool operator==(const PeakReport&) const = default;
};

/// The most that was ever held.
struct MemoryReport {
  std::vector<PeakReport> peaks;    ///< by rank; on a shape-only mesh by class
  std::int64_t physical_bytes = 0;  ///< allocated by the process for all ranks, which share Buffers

  /// Of the rank that held most; zeros where no rank ran.
  PeakReport largest() const;
};
/// What an account says.
PeakReport peak_of(const MemoryAccount& account);

/// Ranks of a shape-only mesh that do the same with the same shapes.
struct ClassReport {
  std::int64_t first_rank = 0;
  std::int64_t size = 0;
  std::string where;      ///< "dp 0-7, tp 0-63", "ranks 0,3"; empty: the whole mesh
  PeakReport peak;        ///< of each of its ranks
  double sent_bytes = 0;  ///< by each of its ranks
};

/// An input as the reporting rank holds it.
struct InputReport {
  std::string name;
  std::string type;
  std::int64_t local_bytes = 0;
};

}  // namespace shardlab
