// run_options.h - options for running a scenario, and facts about a run besides its values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_account.h"
#include "sim/log/progress.h"
#include "sim/log/trace.h"
#include "sim/run/recording.h"
#include "sim/scenario/scenario.h"
#include "sim/types/rules.h"
#include "sim/world/devices.h"
#include "sim/world/sharing_device.h"
#include "sim/world/world.h"

namespace shardlab {

struct KnownAlone;  // one_device.h

/// Hears each value of the program's run on one device, from the thread of that run.
class AloneListener {
 public:
  virtual ~AloneListener() = default;
  virtual void kept(const RecordedValue& value) = 0;
  /// The run is over; `whole`: without a failure. Its values live until this returns.
  virtual void ends(bool whole) = 0;
  /// Bytes of a rank's values that wait for others, after which it waits, too.
  std::int64_t most_ahead = 4 << 20;
};

/// Wraps the device of all ranks, which outlives the wrapper. Ranks are numbered [0, ranks).
using DeviceDecorator = std::function<std::unique_ptr<Device>(Device& device, std::int64_t ranks)>;

/// Options of a run, from the command line or a test; those of the file are in the Scenario.
struct ScenarioOptions {
  /// One that is registered: `shardlab doctor` lists them.
  std::string backend = "threads";
  /// The choice of the rank that runs next, and its seed. Values do not depend on it.
  SchedulerOptions schedule;
  // OS threads that take turns with the ranks' fibers.
  std::optional<std::int64_t> workers;  ///< of `pool`; none: as many as make it faster
  /// Whether equal kernels of several ranks run once. Results are the same bit for bit.
  KernelSharing sharing = KernelSharing::kOn;
  /// Whether ranks in different processes compare their calls before they communicate (B-5).
  CollectiveChecks checks = CollectiveChecks::kOn;
  std::optional<Transport> transport;          ///< between ranks; none: as WorldOptions has it
  bool lazy_groups = false;                    ///< communicators are made at first use
  FabricLog* log = nullptr;                    ///< of the ranks' first run; may be null
  std::optional<MemoryLimits> memory;          ///< none: no limit
  std::optional<PlannerKind> planner;          ///< instead of the scenario's
  CommunicatorDecorator communicator;          ///< on the ranks, never in the single-device run
  DeviceDecorator around_device;               ///< likewise
  std::int64_t step_limit = 1'000'000;         ///< passes through while loops, on each rank
  DeviceChoice device;                         ///< of the ranks, and of the single-device run
  Progress* progress = nullptr;                ///< receives the progress of the run; null: none
  std::int64_t keep_elements = 0;              ///< of each value, for the report; 0: none
  std::optional<TypeMode> types;               ///< of plain tensors, checked; none: they are not
  bool strict = false;                         ///< a value that is not verified fails the run
  bool memory_timeline = false;                ///< of the reporting rank, for the report
  bool explain = true;                         ///< why values are wrong, by many more runs
  std::optional<std::int64_t> reporting_rank;  ///< none: the mesh's first
  TraceDetail other_ranks = TraceDetail::kCounts;  ///< than the reporting one, which keeps events
  /// The program's run on one device, if there was one already: it is not made again.
  std::shared_ptr<KnownAlone> alone;
  /// Not null: where judges_early(), the program runs on one device at the time at which it runs on
  /// its ranks.
  std::shared_ptr<AloneListener> beside;
  /// Receives the recordings of all ranks, by rank, once the run is over and before the values are
  /// freed. On a shape-only mesh, those of the first rank of each class.
  std::function<void(const std::vector<Recording>&)> recorded;
  /// Receives the traces of all ranks, by rank; on a shape-only mesh only with up to 4,096 ranks.
  std::function<void(const std::vector<const Trace*>&)> traced;
};

/// "pool", ...; "single" if each rank has a process of its own.
std::string_view scheduler_name(const ScenarioOptions& options);

/// The first time at which a rank held most: every Buffer counts in full.
struct PeakReport {
  std::int64_t bytes = 0;
  HeldBytes held{};  ///< by purpose; their sum is `bytes`
  HeldBytes most{};  ///< for each purpose at any time
  /// A line of the scenario file, from 1; in backward that of the op whose gradient ran. 0: before
  /// the program's first line.
  std::int32_t line = 0;
  Pass pass = Pass::kForward;
  bool operator==(const PeakReport&) const = default;
};

/// The most that was ever held.
struct MemoryReport {
  std::vector<PeakReport> peaks;    ///< by rank; on a shape-only mesh by class
  std::int64_t physical_bytes = 0;  ///< allocated by the process for all ranks, which share Buffers

  /// The peak of the rank that held most; zeros if no rank ran.
  PeakReport largest() const;
};
/// The peak in an account.
PeakReport peak_of(const MemoryAccount& account);

/// Ranks of a shape-only mesh with the same calls on the same shapes.
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
