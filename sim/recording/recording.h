// recording.h - opens a recorded program, of its recorder or of torch.export.
#pragma once

#include <string>

#include "sim/recording/export_options.h"
#include "sim/recording/recorded_program.h"
#include "sim/recording/recording_file.h"

namespace shardlab {

/// The program of a file that is_recording_file(), or of an archive of torch.export: at the sizes
/// that it was exported with where there are no others.
///   fails  Value: damaged, or contradicts itself: event and place are named. Unsupported: parts
///          that the recorder could not see, or this reader does not know; as exported_program()
RecordedProgram read_recording(const std::string& path, const ExportOptions& options = {});
/// The program of the lines of a file.
///   fails  as the same of its path
RecordedProgram read_recording(RecordingFile file);

}  // namespace shardlab
