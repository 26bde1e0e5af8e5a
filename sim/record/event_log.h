// event_log.h - what a rank decided and whom it called, as text that is equal byte for byte where
// two ranks, or two backends, did the same.
#pragma once

#include <string>
#include <vector>

#include "sim/record/trace.h"

namespace shardlab {

/// One line per op (given specs, inputs and outputs of the chosen row) and per redistribution (plan
/// with all its steps), with pass, place and depth.
std::string decision_log(const std::vector<TraceEvent>& events);
/// One line per collective: kind, group, dtype, this rank's shape, bytes sent, place; and one where
/// the result of an asynchronous one is waited for.
std::string collective_log(const std::vector<TraceEvent>& events);

}  // namespace shardlab
