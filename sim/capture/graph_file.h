// graph_file.h - graphs as files.
#pragma once

#include <string>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

/// The graphs in a file's text, of either form. Whose text it is stands in front of what is wrong
/// with it.
///   fails  Value: what is no graph
std::vector<ProgramGraph> graphs_in(const std::string& path, const std::string& text);
/// Those of a file.
///   fails  Value: the same, or a file that cannot be read
std::vector<ProgramGraph> graphs_of_file(const std::string& path);

}  // namespace shardlab
