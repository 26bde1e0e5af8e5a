// memory_curve.h - the memory of a rank in the course of its program, as a picture and as JSON.
#pragma once

#include <string>
#include <vector>

#include "sim/files/json.h"
#include "sim/run/memory_timeline.h"

namespace shardlab {

/// At most `count` points: each is the fullest of its share.
std::vector<MemoryPoint> fullest(const std::vector<MemoryPoint>& points, std::size_t count);
/// A picture for terminals of 80 columns, several lines with their ends: time runs from left to
/// right, each column is the fullest of its points. Empty if there is no point.
std::string memory_curve(const std::vector<MemoryPoint>& points);
/// A list of { line, pass, bytes, inputs, gradients, ... }, in the order of execution.
Json timeline_json(const std::vector<MemoryPoint>& points);

}  // namespace shardlab
