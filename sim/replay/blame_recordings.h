// blame_recordings.h - two recordings that should agree, one of them of a program that was not
// changed: the first value of the other that rounding does not explain, and the edit that undoes
// it.
#pragma once

#include <string>
#include <vector>

#include "sim/files/json.h"
#include "sim/replay/recording_blame.h"

namespace shardlab {

/// B against A: the recording of a program on any ranks against one that is right.
RecordingBlame blame_recordings(const RecordedProgram& a, const RecordedProgram& b);
/// Values that a job has written (dump_values), in their order, against A.
RecordingBlame blame_values(const RecordedProgram& a, const std::vector<ComparedPoint>& values);

/// For people; `a` and `b` are names of files.
std::string recording_blame_text(const RecordingBlame& blame, const std::string& a,
                                 const std::string& b);
Json recording_blame_json(const RecordingBlame& blame);

}  // namespace shardlab
