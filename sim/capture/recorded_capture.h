// recorded_capture.h - a program that was recorded elsewhere as graphs: run once on its ranks and
// captured, so that all that works on graphs works on it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/capture/capture.h"
#include "sim/capture/recorded_event.h"

namespace shardlab {

/// A recording, read.
struct RecordedProgram {
  std::string path;
  std::vector<Json> lines;  ///< of the file, blank ones null
  std::string backend;      ///< that it wants: "threads", or "fake" where only shapes are known
  ProgramGraph given;       ///< its mesh, and the inputs that lie on all of it; no calls
  std::vector<std::size_t> kept;  ///< ascending: values that it checks; none: those nobody takes
};

/// None: by its first line the file is not a recording.
///   fails  Value: a file that cannot be read; a line that is not JSON, or does not say what it has
///          to, with its number
std::optional<RecordedProgram> recording_of_file(const std::string& path);
/// The same of the lines of a file; at least one.
std::optional<RecordedProgram> read_recording(const std::string& path,
                                              const std::vector<std::string>& lines);

/// Runs the recorded calls on all ranks. Nodes have the file's line numbers. Where a call is
/// decided otherwise here than it was there, ours goes on: `shardlab replay`, without options,
/// tells the difference.
///   fails  as capture_scenario. What a call fails with, an op that does not exist here included,
///          is in the run.
Captured capture_recording(const RecordedProgram& recording, const OpRegistry& registry,
                           const ScenarioOptions& options, const RankChoice& ranks = {});

}  // namespace shardlab
