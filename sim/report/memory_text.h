// memory_text.h - the peak memory of a rank and its purposes, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "sim/files/json.h"
#include "sim/run/run_options.h"

namespace shardlab {

/// "at line 12, in its backward: parameters and inputs 64 MiB", "gradients 32 MiB", ...: only
/// purposes with bytes.
std::vector<std::string> peak_cells(const PeakReport& peak);
/// { bytes, line, pass, inputs, gradients, ... }; line is null before the program's first line.
Json peak_json(const PeakReport& peak);
/// { inputs, gradients, ... }.
Json held_json(const HeldBytes& held);

}  // namespace shardlab
