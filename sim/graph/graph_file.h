// graph_file.h - graphs as files.
#pragma once

#include <string>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

/// The graphs in a file's text, of either form. Errors begin with the file's path.
///   fails  Value: a text that is no graph
std::vector<ProgramGraph> graphs_in(const std::string& path, const std::string& text);
/// The graphs of a file.
///   fails  Value: the same, or a file that cannot be read
std::vector<ProgramGraph> graphs_of_file(const std::string& path);

}  // namespace shardlab
