// open_sizes.h - graphs that admit other sizes of inputs than they were captured with.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

/// A name in the expressions of sizes, and its value: "n", 12.
using NamedSizes = std::vector<std::pair<std::string, std::int64_t>>;

/// The same graphs for inputs of other sizes, whose bits are not known yet. Names that `sizes`
/// leaves out keep their values.
///   fails  Value: a guard that does not admit them, which is named; a name that is in no size;
///          a graph that holds for its own sizes alone
std::vector<ProgramGraph> with_sizes(std::vector<ProgramGraph> graphs, const NamedSizes& sizes);

/// "n = 12, rows = 3".
std::string sizes_text(const NamedSizes& sizes);

}  // namespace shardlab
