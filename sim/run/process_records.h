// process_records.h - for one process per rank: brings the ranks' records to the one that reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/process/control_channel.h"
#include "sim/record/trace.h"
#include "sim/run/recording.h"
#include "sim/run/run_options.h"
#include "sim/scenario/scenario.h"
#include "tensor/device.h"

namespace shardlab {

/// The other processes of this backend's job, which is joined with the first call; null if all
/// ranks share a process.
process::ControlChannel* channel_of(std::string_view backend);

/// The rank whose process verifies and prints: `rank`, or the first that is left.
std::int64_t reporter_of(process::ControlChannel& channel, std::int64_t rank);

/// By rank; each process has filled in its own. Physical memory is that of the own process.
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
enum class ValuesToo : std::uint8_t { kNo, kYes };
void gather_records(process::ControlChannel& channel, std::int64_t reporter, ValuesToo values,
                    RankRecords& records);

/// The finding of the reporter, sent to all. `own`: the error that ended the run on this rank.
///   fails  `own` where the finding cannot come, as rank 0, which passes all on, is silent; without
///          one Runtime: the reporter's process is gone
bool share_finding(process::ControlChannel& channel, std::int64_t reporter, bool met,
                   const std::optional<Error>& own);

}  // namespace shardlab
