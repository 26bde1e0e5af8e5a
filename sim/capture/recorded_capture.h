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
  std::vector<Json> lines;        ///< of the file, blank ones null
  std::string backend;            ///< of its choice: "threads", or "fake" if only shapes are known
  ProgramGraph given;             ///< its mesh, and the inputs on all of it; no calls
  std::vector<std::size_t> kept;  ///< ascending: values that it checks; none: results never used
};

/// None: by its first line the file is not a recording.
///   fails  Value: a file that cannot be read; a line that is not JSON, or does not say what it has
///          to, with its number
std::optional<RecordedProgram> recording_of_file(const std::string& path);
/// The same of the lines of a file; at least one.
std::optional<RecordedProgram> read_recording(const std::string& path,
                                              const std::vector<std::string>& lines);

/// Runs the recorded calls on all ranks. Nodes have the file's line numbers. If a call is decided
/// differently here, our decision counts: `shardlab replay`, without options, reports the
/// difference.
///   fails  as capture_scenario. Errors of a call, an op that does not exist here included,
///          is in the run.
Captured capture_recording(const RecordedProgram& recording, const OpRegistry& registry,
                           const ScenarioOptions& options, const RankChoice& ranks = {});

}  // namespace shardlab
