// time_line.h - a run as Perfetto and chrome://tracing draw it: a process for each rank, its calls
// one after the other.
#pragma once

#include <string>

#include "sim/run/run.h"

namespace shardlab {

/// How fast calls are taken to be, on each rank: no device in particular. All above 0.
struct CallRates {
  double tflops = 100;      ///< 10^12 floating-point operations a second
  double tbps = 2;          ///< 10^12 bytes a second
  double us_of_a_call = 1;  ///< in addition, for each call
};
/// "100 TFLOP/s, 2 TB/s, 1 us a call".
std::string rates_text(const CallRates& rates);

/// JSON of the trace event format, times in microseconds. Predicted, not measured: a collective
/// takes what predicted_us() says from the moment at which its last rank enters it, a message from
/// the moment at which both ranks are there, and a call what its arithmetic and bytes take at the
/// `rates`, which "otherData" names. An asynchronous collective is a pair of its own ("b", "e"),
/// and its wait ends no earlier than it. Nothing else overlaps. All ranks where `run` has their
/// events, else the reporting one.
std::string time_line(const Run& run, const CallRates& rates);

}  // namespace shardlab
