// replay.h - a program that was recorded in PyTorch, run here op by op on as many ranks: every
// result compared with the recorded one (sim/record_torch/README.md).
#pragma once

#include <string>
#include <string_view>

#include "sim/files/json.h"
#include "sim/replay/recorded_world.h"
#include "sim/replay/replay_report.h"

namespace shardlab {

/// Three lines: verdict, place and field, the recorded value, ours.
std::string text(const ReplayDifference& difference, std::string_view verdict);

/// Runs all ops, backward and optimizer too, on as many simulated ranks as were recorded.
///   fails  Value: elements that the file should have and does not. Runtime, is_out_of_memory():
///          the event is named
ReplayReport replay_recording(const RecordedProgram& program,
                              const ReplaySettings& settings = replay_settings());

/// For people: differences, then one line.
std::string replay_text(const RecordedProgram& program, const ReplayReport& report);
Json replay_json(const RecordedProgram& program, const ReplayReport& report);

}  // namespace shardlab
