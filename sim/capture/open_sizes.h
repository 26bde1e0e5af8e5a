// open_sizes.h - graphs that admit other sizes of inputs than they were captured with.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

/// What sizes are written with, and what it is: "n", 12.
using NamedSizes = std::vector<std::pair<std::string, std::int64_t>>;

/// The same graphs for inputs of other sizes, which nobody knows the bits of yet. Names that
/// `sizes` leaves out are what they were.
///   fails  Value: a guard that does not admit them, which is named; a name that no size is written
///          with; a graph that holds for its own sizes alone
std::vector<ProgramGraph> with_sizes(std::vector<ProgramGraph> graphs, const NamedSizes& sizes);

/// "n = 12, rows = 3".
std::string sizes_text(const NamedSizes& sizes);

}  // namespace shardlab
