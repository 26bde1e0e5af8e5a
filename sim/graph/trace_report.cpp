// Parts in the order of a reader's questions: its calls, the facts it depends on, the objects it
// needs before, its breaks.
#include "sim/graph/trace_report.h"

#include <iterator>

#include "base/text.h"
#include "comm/verdict.h"
#include "sim/files/json_value.h"
#include "trace/compare_graphs.h"
#include "trace/graph_break.h"

namespace shardlab {

namespace {

bool expects_failure(const Scenario& scenario) {
  return scenario.expect.error.has_value() || scenario.expect.verdict.has_value();
}

std::string ranks_of(const ProgramGraph& graph) {
  return graph.ranks.empty() ? fmt::format("{} ranks", graph.world) : fold_ranks(graph.ranks);
}

std::string guard_line(const Guard& guard) {
  std::string text =
      fmt::format("  {:<8}  {} = {}", to_string(guard.kind), guard.source, guard.expected);
  if (guard.line > 0) text += fmt::format("    line {}", guard.line);
  return text + "\n";
}

// The first difference of the first two classes, with both nodes.
std::string parting(const Captured& captured) {
  const ProgramGraph& a = captured.graphs[0];
  const ProgramGraph& b = captured.graphs[1];
  const auto difference = first_difference(a, b);
  if (!difference) return "";
  return fmt::format("the ranks part at node {}\n  {}: {}\n  {}: {}\n", difference->node,
                     ranks_of(a), difference->a, ranks_of(b), difference->b);
}

std::string sharing(const Captured& captured) {
  if (captured.graphs.size() > 1) return counted(std::ssize(captured.graphs), "graph");
  return fmt::format("same on {}", counted(captured.graphs[0].world, "rank"));
}

void add_part(std::string& text, std::string_view title, const std::string& part) {
  if (!part.empty()) text += fmt::format("\n{}\n{}", title, part);
}

}  // namespace

std::string outcome_text(const TraceReport& report) {
  switch (report.outcome) {
    case ReplayOutcome::kBitwise:
      return "replay bitwise";
    case ReplayOutcome::kShapes:
      return "replay on shapes";
    case ReplayOutcome::kFails:
      return "replay fails alike";
    default:
      return "replay differs: " + report.why;
  }
}

TraceReport compared(const Captured& captured, const ReplayRun& replayed) {
  TraceReport report;
  const std::optional<Error>& then = captured.run.error;
  const std::optional<Error>& now = replayed.run.error;
  report.expected = !then || expects_failure(captured.run.scenario);
  // A program may fail between its calls, where a graph has nothing.
  const bool in_graph = std::ranges::any_of(captured.graphs, [](const ProgramGraph& graph) {
    return !graph.nodes.empty() && graph.nodes.back().error.has_value();
  });
  const bool alike =
      then && (now ? now->kind() == then->kind() && now->summary() == then->summary() : !in_graph);
  if (alike) {
    report.outcome = ReplayOutcome::kFails;
  } else if (now || then) {
    report.outcome = ReplayOutcome::kDiffers;
    report.why = now ? now->summary() : "it runs, and the program failed: " + then->summary();
  } else if (captured.run.shapes_only()) {
    report.outcome = ReplayOutcome::kShapes;
  } else if (!replayed.bits_compared) {
    report.outcome = ReplayOutcome::kDiffers;
    report.why = "no rank compared its bits";
  }
  return report;
}

std::string trace_summary(const Captured& captured, const TraceReport& report) {
  const ProgramGraph& graph = captured.graphs.at(0);
  return fmt::format(
      "{}  {}, {}, {}, {}, {}, {}\n", report.ok() ? "ok" : "FAILED",
      counted(std::ssize(graph.nodes), "node"), counted(collective_count(graph), "collective"),
      counted(std::ssize(graph.guards), "guard"), counted(std::ssize(breaks_of(graph)), "break"),
      sharing(captured), outcome_text(report));
}

std::string trace_text(const Captured& captured, const TraceReport& report) {
  std::string text = captured.run.scenario.title;
  if (!captured.run.scenario.point.empty()) text += " [" + captured.run.scenario.point + "]";
  text += fmt::format("  mesh {}\n", captured.run.layout->text());
  for (const ProgramGraph& graph : captured.of_ranks) {
    add_part(text, fmt::format("graph of rank {}", graph.ranks.at(0)),
             graph_text(graph, GraphLevel::kRank));
  }
  if (captured.of_ranks.empty()) {
    for (const ProgramGraph& graph : captured.graphs) {
      add_part(text, fmt::format("graph of {}", ranks_of(graph)),
               graph_text(graph, GraphLevel::kProgram));
    }
  }
  const ProgramGraph& first = captured.graphs.at(0);
  std::string guards, breaks;
  for (const Guard& guard : first.guards) guards += guard_line(guard);
  for (const GraphBreak& one : breaks_of(first)) breaks += one.text("  ");
  add_part(text, "guards", guards);
  add_part(text, "setup", setup_text(first));
  add_part(text, "breaks", breaks);
  if (captured.graphs.size() > 1) text += "\n" + parting(captured);
  if (captured.run.error) text += "\nthe program fails: " + captured.run.error->summary() + "\n";
  return text + "\n" + trace_summary(captured, report);
}

std::string trace_json(const Captured& captured, const TraceReport& report, std::string_view form,
                       const std::string& text) {
  using Json = nlohmann::ordered_json;
  const ProgramGraph& first = captured.graphs.at(0);
  Json json = {{"title", captured.run.scenario.title},
               {"point", captured.run.scenario.point},
               {"ok", report.ok()},
               {"nodes", first.nodes.size()},
               {"collectives", collective_count(first)},
               {"graphs", captured.graphs.size()},
               {"replay", outcome_text(report)}};
  json["guards"] = Json::array();
  for (const Guard& guard : first.guards) {
    json["guards"].push_back({{"kind", to_string(guard.kind)},
                              {"source", guard.source},
                              {"expected", guard.expected},
                              {"line", guard.line}});
  }
  json["breaks"] = Json::array();
  for (const GraphBreak& one : breaks_of(first)) {
    json["breaks"].push_back({{"gb_type", one.gb_type},
                              {"context", one.context},
                              {"explanation", one.explanation},
                              {"hints", one.hints}});
  }
  if (captured.graphs.size() > 1) {
    if (const auto difference = first_difference(captured.graphs[0], captured.graphs[1])) {
      json["parts"] = {{"node", difference->node}, {"a", difference->a}, {"b", difference->b}};
    }
  }
  if (!form.empty()) json[std::string(form)] = text;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string replay_json(const ProgramGraph& graph, std::string_view how) {
  const nlohmann::ordered_json json = {{"title", graph.title},
                                       {"file", graph.file},
                                       {"nodes", graph.nodes.size()},
                                       {"ranks", graph.world},
                                       {"replay", how}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string check_text(const std::vector<CheckedGuard>& answers) {
  std::string text;
  for (const CheckedGuard& answer : answers) {
    const bool holds = answer.holds();
    text += holds ? "holds " : "BROKEN";
    text += guard_line(answer.guard);
    if (!holds) text += fmt::format("          found {}\n", answer.found);
  }
  return text;
}

}  // namespace shardlab
