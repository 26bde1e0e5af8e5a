// event_log.h - a rank's decisions and collectives, as text that is equal byte for byte if two
// ranks, or two backends, did the same.
#pragma once

#include <string>
#include <vector>

#include "sim/log/trace.h"

namespace shardlab {

/// One line per op (given specs, inputs and outputs of the chosen row) and per redistribution (plan
/// with all its steps), with pass, place and depth.
std::string decision_log(const std::vector<TraceEvent>& events);
/// One line per collective: kind, group, dtype, this rank's shape, bytes sent, place; and one for
/// each wait for an asynchronous one.
std::string collective_log(const std::vector<TraceEvent>& events);

}  // namespace shardlab
