// One line is one object.
#include "trace/graph_json.h"

#include "base/error.h"
#include "trace/graph_objects.h"

namespace shardlab {

std::string graph_json(const ProgramGraph& graph) {
  std::string text = json_text(object_of(graph)) + "\n";
  for (const Guard& guard : graph.guards) text += json_text(object_of(guard)) + "\n";
  for (const GraphNode& node : graph.nodes) text += json_text(object_of(node)) + "\n";
  return text;
}

std::vector<ProgramGraph> read_graphs(std::string_view text) {
  std::size_t at = 0, number = 0;
  return read_graph_objects([&]() -> std::optional<GraphLine> {
    while (at < text.size()) {
      ++number;
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view one = text.substr(at, end - at);
      at = end + 1;
      if (one.empty()) continue;
      GraphObject object = GraphObject::parse(one, nullptr, false);
      if (!object.is_discarded()) return GraphLine{std::move(object), number};
      fail(Fix{kCaptureAgain}, "line {} of the graph is not JSON: it is damaged or cut off",
           number);
    }
    return std::nullopt;
  });
}

}  // namespace shardlab
