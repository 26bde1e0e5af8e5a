// The graphs of the run are compared with those of the file class by class; places of nodes in the
// program's text are not compared.
#include "sim/judge/graph_expectations.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/verdict.h"
#include "sim/graph/capture.h"
#include "sim/graph/graph_file.h"
#include "sim/graph/recorders.h"
#include "sim/scenario/checkpoint_input.h"
#include "trace/compare_graphs.h"
#include "trace/graph_break.h"

namespace shardlab {

namespace {

std::string ranks_text(const ProgramGraph& graph) {
  return graph.ranks.empty() ? "all ranks" : fold_ranks(graph.ranks);
}

// The first difference; empty: there is none.
std::string difference(const std::vector<ProgramGraph>& expected,
                       const std::vector<ProgramGraph>& found) {
  for (const ProgramGraph& graph : found) {
    const auto same = std::ranges::find(expected, graph.ranks, &ProgramGraph::ranks);
    if (same == expected.end()) return fmt::format("it has no graph of {}", ranks_text(graph));
    const auto parts = first_difference(*same, graph, Places::kIgnored);
    if (!parts) continue;
    return fmt::format("node {} of {}: expected {}, got {}", parts->node, ranks_text(graph),
                       parts->a, parts->b);
  }
  if (expected.size() == found.size()) return "";
  return fmt::format("it has {} graphs, the program {}", expected.size(), found.size());
}

ExpectationReport check_file(const Run& run, const ExpectedGraph& expected,
                             const std::vector<ProgramGraph>& graphs) {
  ExpectationReport report{.what = "graph", .where = expected.where};
  try {
    const std::string path = path_in_folder_of(run.scenario.file->file(), expected.file);
    report.text = difference(graphs_of_file(path), graphs);
    report.met = report.text.empty();
  } catch (const Error& error) {
    report.text = fmt::format("{} (shardlab trace FILE --out writes one)", error.summary());
  }
  if (report.met) {
    report.text = expected.file;
  } else if (!report.text.starts_with(expected.file)) {
    report.text = fmt::format("{}: {}", expected.file, report.text);
  }
  return report;
}

}  // namespace

void check_graphs(const Run& run, Recorders& recorders, std::vector<ExpectationReport>& reports) {
  const Expectation& expect = run.scenario.expect;
  const std::vector<ProgramGraph> graphs = graphs_of(run, recorders);
  if (expect.graph) reports.push_back(check_file(run, *expect.graph, graphs));
  if (expect.graph_breaks) {
    std::size_t most = 0;
    for (const ProgramGraph& graph : graphs) most = std::max(most, breaks_of(graph).size());
    const auto found = static_cast<double>(most + run.traced_breaks);
    reports.push_back(check_count("graph_breaks", *expect.graph_breaks, found));
  }
  if (expect.graphs) {
    const auto found = static_cast<double>(graphs.size());
    reports.push_back(check_count("graphs", *expect.graphs, found));
  }
}

}  // namespace shardlab
