// memory_text.h - the peak memory of a rank and its purposes, and its memory in the course of the
// program, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "sim/files/json.h"
#include "sim/run/memory_timeline.h"
#include "sim/run/run_options.h"

namespace shardlab {

/// "at line 12, in its backward: parameters and inputs 64 MiB", "gradients 32 MiB", ...: only
/// purposes with bytes.
std::vector<std::string> peak_cells(const PeakReport& peak);
/// { bytes, line, pass, inputs, gradients, ... }; line is null before the program's first line.
Json peak_json(const PeakReport& peak);
/// { inputs, gradients, ... }.
Json held_json(const HeldBytes& held);

/// At most `count` points: each is the fullest of its share.
std::vector<MemoryPoint> fullest(const std::vector<MemoryPoint>& points, std::size_t count);
/// A picture for terminals of 80 columns, several lines with their ends: time runs from left to
/// right, each column is the fullest of its points. Empty if there is no point.
std::string memory_curve(const std::vector<MemoryPoint>& points);
/// A list of { line, pass, bytes, inputs, gradients, ... }, in the order of execution.
Json timeline_json(const std::vector<MemoryPoint>& points);

}  // namespace shardlab
