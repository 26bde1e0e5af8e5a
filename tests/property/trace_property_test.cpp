// Every shipped scenario as a graph: written, read, run again. The replay's final values are
// compared bit by bit with those of the program, on every rank.
#include <doctest/doctest.h>

#include <regex>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "sim/graph/graph_scenario.h"
#include "sim/graph/trace_report.h"
#include "sim/scenario/scenario_file.h"
#include "tests/property/shipped_scenarios.h"
#include "trace/compare_graphs.h"
#include "trace/graph_json.h"

namespace shardlab {
namespace {

std::string text_of(const std::vector<ProgramGraph>& graphs) {
  std::string text;
  for (const ProgramGraph& graph : graphs) text += graph_json(graph);
  return text;
}

// The verdict of a message that nobody sends names its line, which is another in another text.
ProgramGraph without_lines_in_errors(ProgramGraph graph) {
  static const std::regex line(R"(\(line \d+\))");
  for (GraphNode& node : graph.nodes) {
    if (node.error) node.error->message = std::regex_replace(node.error->message, line, "(line)");
  }
  return graph;
}

// Slices of these are constructed where a value is first on them, and an unflattened view is
// written as the array of its ranks, so that meshes have other numbers.
bool constructs_slices_later(const ProgramGraph& graph) {
  return graph.title == "Modules cut on slices of the mesh" ||
         graph.title == "Views of one world" ||
         graph.title == "The views that a training stack has of its ranks";
}

// If every node has a statement, the graph written as a scenario has the same results. Counts those
// graphs.
bool is_written_as_scenario(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry) {
  std::string text;
  try {
    text = graph_scenario(graphs, registry);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUnsupported);
    return false;
  }
  CAPTURE(text);
  const ScenarioFile file =
      ScenarioFile::read(std::make_shared<const SourceText>("written.toml", text), {});
  const Captured again = capture_scenario(file.at(file.points().at(0)), registry, {});
  const auto difference =
      first_difference(without_lines_in_errors(graphs.at(0)),
                       without_lines_in_errors(again.graphs.at(0)), Places::kIgnored);
  const bool same = !difference.has_value() || constructs_slices_later(graphs.at(0));
  CHECK_MESSAGE(same, difference->node, ": ", difference->a, "\n", difference->b);
  CHECK((again.graphs[0].digests == graphs[0].digests || graphs[0].left != again.graphs[0].left));
  return true;
}

// Counts of each outcome.
struct Outcomes {
  int bitwise = 0, shapes = 0, fails = 0, written = 0;
};

void trace_all(const ScenarioOptions& options, Outcomes& outcomes) {
  OpRegistry registry;
  register_all_ops(registry);
  for (const test::ShippedScenario& shipped : test::shipped_scenarios()) {
    CAPTURE(shipped.name);
    const Captured captured = capture_scenario(shipped.scenario, registry, options);
    const std::string text = text_of(captured.graphs);
    const std::vector<ProgramGraph> read = read_graphs(text);
    CHECK(text_of(read) == text);
    CHECK_FALSE(first_broken(read.front().guards, facts_of(shipped.scenario)).has_value());
    const ReplayRun replayed = replay_on_ranks(read, registry, options, {.pinned = true});
    const TraceReport report = compared(captured, replayed);
    CHECK_MESSAGE(!replayed.otherwise.has_value(), replayed.otherwise->b);
    CHECK_MESSAGE(report.outcome != ReplayOutcome::kDiffers, report.why);
    if (options.backend == "threads") {
      outcomes.written += is_written_as_scenario(read, registry);
    }
    outcomes.bitwise += report.outcome == ReplayOutcome::kBitwise;
    outcomes.shapes += report.outcome == ReplayOutcome::kShapes;
    outcomes.fails += report.outcome == ReplayOutcome::kFails;
  }
}

TEST_CASE("T-58 every shipped scenario is replayed bitwise from the file of its graph") {
  Outcomes outcomes;
  trace_all({}, outcomes);
  CHECK(outcomes.bitwise > 60);
  CHECK(outcomes.shapes == 0);
  CHECK(outcomes.fails > 0);
  CHECK(outcomes.written > 50);
}

TEST_CASE("T-58 on a shape-only mesh every shipped scenario is replayed with the same types") {
  Outcomes outcomes;
  ScenarioOptions options;
  options.backend = "fake";
  trace_all(options, outcomes);
  CHECK(outcomes.shapes > 50);
  CHECK(outcomes.bitwise == 0);
}

}  // namespace
}  // namespace shardlab
