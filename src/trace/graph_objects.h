// graph_objects.h - the lines of a graph's file as objects, and one reader that checks every field.
// Only for src/trace and its tests.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trace/graph.h"

namespace shardlab {

using GraphObject = nlohmann::ordered_json;

/// The fix for a file that is not a graph.
constexpr const char* kCaptureAgain = "capture the program again: shardlab trace --out GRAPH";

/// The program itself: the first line.
GraphObject object_of(const ProgramGraph& graph);
GraphObject object_of(const Guard& guard);
GraphObject object_of(const GraphNode& node);
/// On one line, without an end of line; bytes that are not UTF-8 are replaced.
std::string json_text(const GraphObject& object);

struct GraphLine {
  GraphObject object;
  std::size_t number = 0;  ///< of the line, from 1 on
};
/// The next line that is not blank; none at the end. Called for the next one when the line before
/// it has been read and found to be right.
using NextGraphLine = std::function<std::optional<GraphLine>()>;

///   fails  Value: a text that is not a graph, with the line and the field
std::vector<ProgramGraph> read_graph_objects(const NextGraphLine& next);

}  // namespace shardlab
