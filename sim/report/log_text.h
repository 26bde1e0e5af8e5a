// log_text.h - a scenario run as an indented log of the dispatcher on the reporting rank, or on
// each.
#pragma once

#include <string>

#include "sim/run/run.h"

namespace shardlab {

/// One line per op (arguments, results), indented by nesting; below it each redistribution it asked
/// for (argument, plan) and the collectives of both. Ops of the backward pass follow a line that
/// says so. Ends with the collectives of all ranks, counted, and the error of the run, if any.
std::string log_text(const Run& run);

}  // namespace shardlab
