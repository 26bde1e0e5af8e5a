// graph_json.h - graphs as files: one JSON object a line, the program first, then its guards, then
// its nodes, in the form of recorded programs (tests/golden/facts/programs/README.md), which it
// extends: values are described alike, arguments are written alike. A file holds one graph, or
// those of all classes of ranks one after the other. A text that is printed, read and printed again
// is the same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

std::string graph_json(const ProgramGraph& graph);

/// Never takes more memory than a small multiple of the text.
///   fails  Value: a text that is not a graph, with the line and the field
std::vector<ProgramGraph> read_graphs(std::string_view text);

}  // namespace shardlab
