// line_visits.h - a run as its reporting rank passed the lines of the program: the same line again
// after ops of another line, or of the other pass.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/log/trace.h"

namespace shardlab {

/// Events that follow each other in one pass, on one line of the source.
struct LineVisit {
  Pass pass = Pass::kForward;
  int line = 0;
  std::size_t begin = 0, end = 0;  ///< events
  /// Equal if two visits are the same: the same ops on the same types, the same moves, the same
  /// collectives with as many bytes.
  int kind = 0;
};

/// In order. Together they hold every event once.
std::vector<LineVisit> line_visits(const std::vector<TraceEvent>& events);

}  // namespace shardlab
