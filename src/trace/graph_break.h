// graph_break.h - the place where a graph ends because the rest cannot be recorded (T-5, T-6).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "trace/graph.h"

namespace shardlab {

/// Four parts, printed in this order.
struct GraphBreak {
  std::string gb_type;      ///< fixed, without context: the key of statistics
  std::string context;      ///< the case at hand
  std::string explanation;  ///< why it cannot be part of a graph
  std::vector<std::string> hints;

  /// One line a part, hints one a line, each line begun with `indent`. Ends with an end of line.
  std::string text(std::string_view indent = "") const;
};

/// A break that is thrown. Kind Unsupported; the hints are its fix. One that is thrown while
/// another is handled takes that as its cause, so that both are shown: error.caused_by(first).
Error error_of(const GraphBreak& graph_break);

/// The name of a backward in which hooks of the program ran ops.
inline constexpr const char* kWithHooks = "with hooks";
/// The break at a node that reads elements, or at a backward with hooks; none at others.
std::optional<GraphBreak> break_at(const GraphNode& node);
/// All breaks of a graph, in order.
std::vector<GraphBreak> breaks_of(const ProgramGraph& graph);
/// Number of breaks of each gb_type.
std::map<std::string, std::int64_t> counted(const std::vector<GraphBreak>& breaks);

}  // namespace shardlab
