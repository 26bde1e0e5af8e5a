// recording_reader.h - the lines of a recording as a program.
#pragma once

#include "sim/recording/recorded_program.h"
#include "sim/recording/recording_file.h"

namespace shardlab {

/// Reads and checks each line.
///   fails  Value: damaged, or contradicts itself: event and place are named. Unsupported: parts
///          that the recorder could not see, or this reader does not know
RecordedProgram read_recording(RecordingFile file);

}  // namespace shardlab
