// break_check.h - a graph that ends a branch on elements (T-6), compared with a capture of today:
// guards cover no element that was read.
#pragma once

#include <string>
#include <vector>

#include "sim/graph/capture.h"

namespace shardlab {

/// The breaks of a graph, as they come out now.
struct BreakCheck {
  enum class Outcome : std::uint8_t {
    kNone,       ///< the graph has no breaks
    kSame,       ///< the program is the same after them
    kElsewhere,  ///< it does not
    kUnknown,    ///< elements are not known here
  };
  Outcome outcome = Outcome::kNone;
  std::string text;  ///< "1 break leads the same way"; of kElsewhere the error and its parts
};

/// Whether the graphs have a break, so that a check needs the program to run once more.
bool has_breaks(const std::vector<ProgramGraph>& graphs);
/// Compares graphs, node by node, with those of the same program that was captured now.
BreakCheck check_breaks(const std::vector<ProgramGraph>& graphs, const Captured& now);

}  // namespace shardlab
