// The program is captured once more and its graphs are compared: the break before the first node
// that differs is the one that leads elsewhere.
#include "sim/graph/break_check.h"

#include <algorithm>

#include "base/text.h"
#include "trace/compare_graphs.h"
#include "trace/graph_break.h"

namespace shardlab {

namespace {

std::int64_t count_of_breaks(const std::vector<ProgramGraph>& graphs) {
  std::int64_t most = 0;
  for (const ProgramGraph& graph : graphs) most = std::max(most, std::ssize(breaks_of(graph)));
  return most;
}

// The last break before a node.
std::string break_before(const ProgramGraph& graph, std::size_t node) {
  for (std::size_t i = std::min(node, graph.nodes.size()); i-- > 0;) {
    if (const auto here = break_at(graph.nodes[i])) {
      return fmt::format("{}: {}", here->gb_type, here->context);
    }
  }
  return "";
}

// A graph is compared with that of its first rank, since classes may have changed.
const ProgramGraph* graph_of_first_rank(const ProgramGraph& then, const Captured& now) {
  const std::int64_t rank = then.ranks.empty() ? 0 : then.ranks.front();
  const auto found = std::ranges::find_if(
      now.graphs, [&](const ProgramGraph& graph) { return graph.of_rank(rank); });
  return found == now.graphs.end() ? nullptr : &*found;
}

std::string elsewhere(const ProgramGraph& graph, const GraphDifference& difference) {
  std::string text = fmt::format("error: node {} is another one now", difference.node);
  const std::string rests_on = break_before(graph, difference.node);
  text += fmt::format("\n  captured    {}\n  now         {}\n", difference.a, difference.b);
  if (!rests_on.empty()) text += fmt::format("  rests on    {}\n", rests_on);
  return text + "  fix         capture the program again, on these inputs\n";
}

}  // namespace

bool has_breaks(const std::vector<ProgramGraph>& graphs) { return count_of_breaks(graphs) > 0; }

BreakCheck check_breaks(const std::vector<ProgramGraph>& graphs, const Captured& now) {
  const std::int64_t breaks = count_of_breaks(graphs);
  if (breaks == 0) return {};
  const std::string count = counted(breaks, "break");
  if (now.run.shapes_only()) {
    return {BreakCheck::Outcome::kUnknown,
            fmt::format("{} not checked: nothing holds elements here", count)};
  }
  for (const ProgramGraph& graph : graphs) {
    const ProgramGraph* today = graph_of_first_rank(graph, now);
    const auto difference = today == nullptr ? std::nullopt : first_difference(graph, *today);
    if (difference) return {BreakCheck::Outcome::kElsewhere, elsewhere(graph, *difference)};
  }
  return {BreakCheck::Outcome::kSame,
          fmt::format("{} {} the same way", count, breaks == 1 ? "leads" : "lead")};
}

}  // namespace shardlab
