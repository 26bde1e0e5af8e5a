// time_line.h - a run as Perfetto and chrome://tracing draw it: a process for each rank, its calls
// one after the other.
#pragma once

#include <string>

#include "sim/run/run.h"

namespace shardlab {

/// JSON of the trace event format, times in microseconds. Predicted, not measured: a collective
/// takes what predicted_us() says from the moment at which its last rank enters it, a message from
/// the moment at which both ranks are there, and a call what its arithmetic and bytes take at the
/// rates that "otherData" names. An asynchronous collective is a pair of its own ("b", "e"), and
/// its wait ends no earlier than it. Nothing else overlaps. All ranks where `run` has their events,
/// else the reporting one.
std::string time_line(const Run& run);

}  // namespace shardlab
