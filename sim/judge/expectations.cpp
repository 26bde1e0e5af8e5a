// Each line of [expect] becomes one report, met or not, with the value found. Counts of collectives
// are those of the rank with the most; a collective that is not listed is expected not to happen.
#include "sim/judge/expectations.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/verdict.h"
#include "mesh/type_string.h"
#include "sim/graph/capture.h"
#include "sim/graph/graph_file.h"
#include "sim/graph/recorders.h"
#include "sim/run/mesh_names.h"
#include "sim/scenario/checkpoint_input.h"
#include "sim/scenario/type_text.h"
#include "trace/compare_graphs.h"
#include "trace/graph_break.h"

namespace shardlab {

namespace {

// The last value of a name on the first rank that has one.
const DTensor* last_value(const std::vector<Recording>& recordings, const std::string& name) {
  for (const Recording& rank : recordings) {
    const auto& values = rank.values();
    for (auto value = values.rbegin(); value != values.rend(); ++value) {
      if (value->name == name) return &value->value;
    }
  }
  return nullptr;
}

// The type on the mesh of the value, or on the scenario's if its names are not dims there.
const DTensorSpec* wanted_spec(const ExpectedType& expected, const MeshLayout* layout,
                               const DTensor* value) {
  const DType dtype = value != nullptr ? value->dtype() : DType::kF32;
  if (value != nullptr && value->distributed() && value->spec()->layout() != layout) {
    try {
      return spec_of(expected.type, value->spec()->layout(), dtype);
    } catch (const Error&) {
      return spec_of(expected.type, layout, dtype);
    }
  }
  return spec_of(expected.type, layout, dtype);
}

bool same_layout(const DTensor& value, const DTensorSpec& wanted) {
  if (value.shape() != wanted.shape() || value.dtype() != wanted.dtype()) return false;
  if (!value.distributed()) return wanted.is_replicated();
  return value.spec()->placements() == wanted.placements() &&
         value.spec()->order() == wanted.order();
}

ExpectationReport check_type(const ExpectedType& expected, const Run& run,
                             const std::vector<Recording>& recordings) {
  ExpectationReport report;
  report.what = expected.full_name();
  report.where = expected.where;
  const DTensor* value = last_value(recordings, expected.full_name());
  const DTensorSpec* wanted = wanted_spec(expected, run.layout, value);
  if (value == nullptr) {
    report.text = fmt::format("expected {}, got no value", type_string(*wanted));
    return report;
  }
  const std::string found = type_string(*value) + on_mesh(run, value->spec());
  const std::string& mesh = expected.type.mesh;
  const bool there =
      mesh.empty() || (value->distributed() && mesh_name(run, *value->spec()->layout()) == mesh);
  report.met = same_layout(*value, *wanted) && there;
  const std::string text =
      mesh.empty() ? shown_type(run, *wanted) : type_string(*wanted) + " on " + mesh;
  report.text = report.met ? text : fmt::format("expected {}, got {}", text, found);
  return report;
}

std::int64_t largest_count(const std::vector<CollectiveCounts>& counts, CollectiveKind kind) {
  std::int64_t largest = 0;
  for (const CollectiveCounts& rank : counts) largest = std::max(largest, rank.total(kind));
  return largest;
}

void check_collectives(const Run& run, std::vector<ExpectationReport>& reports) {
  const auto& expected = run.scenario.expect.collectives;
  if (!expected) return;
  for (std::size_t index = 0; index < kCollectiveKinds; ++index) {
    const auto kind = static_cast<CollectiveKind>(index);
    const std::string name(to_string(kind));
    const auto& listed = collective_names();
    if (std::find(listed.begin(), listed.end(), name) == listed.end()) continue;
    const std::int64_t found = largest_count(run.counts, kind);
    const auto& bounds = *expected;
    const auto bound =
        std::find_if(bounds.begin(), bounds.end(), [&](const auto& b) { return b.first == name; });
    if (bound != bounds.end()) {
      reports.push_back(
          check_count("collectives." + name, bound->second, static_cast<double>(found)));
    } else if (found > 0) {
      reports.push_back({.what = "collectives." + name,
                         .text = fmt::format("expected none (not listed), got {}", found),
                         .where = bounds.empty() ? Where() : bounds.front().second.where});
    }
  }
}

void check_bytes(const Run& run, std::vector<ExpectationReport>& reports) {
  if (!run.scenario.expect.bytes) return;
  double largest = 0;
  for (const CollectiveCounts& rank : run.counts) largest = std::max(largest, rank.bytes());
  reports.push_back(check_count("bytes", *run.scenario.expect.bytes, largest));
}

std::int64_t bytes_of(const PeakReport& peak, std::string_view key) {
  for (std::size_t i = 0; i < kHeldForCount; ++i) {
    if (key_of(static_cast<HeldFor>(i)) == key) return peak.most[i];
  }
  return peak.bytes;
}

void check_memory(const Scenario& scenario, const PeakReport& peak,
                  std::vector<ExpectationReport>& reports) {
  for (const auto& [key, bound] : scenario.expect.memory) {
    reports.push_back(
        check_count("memory." + key, bound, static_cast<double>(bytes_of(peak, key))));
  }
}

// The graphs of the run are compared with those of the file class by class; places of nodes in the
// program's text are not compared.
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

ExpectationReport check_count(std::string what, const Bound& bound, double found,
                              const std::string& more) {
  ExpectationReport report{
      .what = std::move(what), .met = bound.holds(found), .where = bound.where};
  report.text = report.met ? fmt::format("{:.0f}", found)
                           : fmt::format("expected {}, got {:.0f}{}", bound.text, found, more);
  return report;
}

std::vector<ExpectationReport> check_expectations(const Run& run,
                                                  const std::vector<Recording>& recordings) {
  std::vector<ExpectationReport> reports;
  for (const ExpectedType& expected : run.scenario.expect.types) {
    reports.push_back(check_type(expected, run, recordings));
  }
  check_collectives(run, reports);
  check_bytes(run, reports);
  check_memory(run.scenario, run.memory.largest(), reports);
  return reports;
}

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
