// process_records.h - for one process per rank: brings the ranks' records to the one that reports.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/process/control_channel.h"
#include "sim/log/trace.h"
#include "sim/run/recording.h"
#include "sim/run/run_options.h"
#include "sim/scenario/scenario.h"
#include "sim/world/backends.h"
#include "tensor/device.h"

namespace shardlab {

/// The rank whose process verifies and prints: `rank`, or the first that is left.
std::int64_t reporter_of(process::ControlChannel& channel, std::int64_t rank);
/// The culprits that a run has lost: their processes are gone, or silent. Such a run says nothing
/// about its program.
std::vector<std::int64_t> lost_ranks(const process::ControlChannel& channel,
                                     const Verdict& verdict);

/// Records by rank; each process has filled in its own. Physical memory is that of the own process.
struct RankRecords {
  const Scenario* scenario = nullptr;
  Device* device = nullptr;  ///< values from other processes are stored there
  std::vector<Recording>* recordings = nullptr;
  std::vector<Trace>* traces = nullptr;
  std::vector<PeakReport>* peaks = nullptr;
  std::int64_t physical_bytes = 0;
};

/// Fills in the other ranks' entries in the reporter's process: lines, values (unless the run
/// failed, when they are not used), counts, peaks. Physical memory becomes the sum of all
/// processes.
///   fails  Runtime, the same on all ranks: values of a rank have not arrived, so that nothing can
///          be judged: its process is gone, or has no memory for them
enum class ValuesToo : std::uint8_t { kNo, kYes };
void gather_records(process::ControlChannel& channel, std::int64_t reporter, ValuesToo values,
                    RankRecords& records);

/// On the reporter whether all is as expected; on others whether the run has failed, so that a
/// finding that cannot come is not missed.
enum class RunFinding : std::uint8_t { kMet, kNotMet, kRunFailed };
/// The finding of the reporter, sent to all: whether it is kMet.
///   fails  Runtime: the reporter's process is gone
bool share_finding(process::ControlChannel& channel, std::int64_t reporter, RunFinding mine);

}  // namespace shardlab
