// Parts in the order of a reader's questions: its calls, the facts it depends on, the objects it
// needs before, its breaks.
#include "sim/graph/trace_report.h"

#include <iterator>

#include "base/text.h"
#include "comm/verdict.h"
#include "mesh/type_string.h"
#include "schema/op_registry.h"
#include "sim/files/json_value.h"
#include "sim/graph/input_recipe.h"
#include "sim/graph/recorders.h"
#include "sim/run/program_run.h"
#include "trace/compare_graphs.h"
#include "trace/digest.h"
#include "trace/graph_break.h"

namespace shardlab {

// The run is one of a scenario without a program; in its place each rank runs its graph.

namespace {

// The number of the rank's graph; if it has none, the number of graphs.
std::uint64_t number_of_graph(const std::vector<ProgramGraph>& graphs, std::int64_t rank) {
  const auto found =
      std::ranges::find_if(graphs, [&](const ProgramGraph& graph) { return graph.of_rank(rank); });
  return static_cast<std::uint64_t>(found - graphs.begin());
}

const ProgramGraph& graph_of(const std::vector<ProgramGraph>& graphs, std::int64_t rank) {
  const std::uint64_t number = number_of_graph(graphs, rank);
  if (number < graphs.size()) return graphs[number];
  Error error(ErrorKind::kValue, fmt::format("the file has no graph for rank {}", rank));
  for (const ProgramGraph& graph : graphs) {
    if (graph.guards.empty() || graph.guards.back().kind != Guard::Kind::kRank) continue;
    const Guard& guard = graph.guards.back();
    error.with("has",
               fmt::format("that of {}{}", guard.expected,
                           guard.line > 0 ? fmt::format(", which part at line {}", guard.line)
                                          : std::string()));
  }
  throw error.with("fix", "capture the program on all ranks");
}

// Fails with Assert if the final bits are not the program's.
void compare_bits(const ProgramGraph& graph, const Replayed& replayed, std::int64_t rank) {
  const auto place =
      graph.ranks.empty() ? rank : std::ranges::find(graph.ranks, rank) - graph.ranks.begin();
  const std::uint64_t then = graph.digests.at(static_cast<std::size_t>(place));
  if (then == replayed.digest) return;
  fail(ErrorKind::kAssert, Fix{"was it captured on another device, or by another version?"},
       "the replay leaves other bits behind than the program did, on rank {}", rank);
}

// Writes down the values of one rank before and after each node.
class ValueTeller final : public ReplayListener {
 public:
  ValueTeller(const ProgramGraph& graph, std::string& out) : graph_(graph), out_(out) {}

  bool begins(std::size_t node, ReplayState& state) override {
    const GraphNode& here = graph_.nodes[node];
    out_ += fmt::format("{:>4}  {}\n", node, node_text(graph_, here));
    for (const GraphArgument& argument : here.args) {
      for_each_value(argument,
                     [&](const ValueRef& value) { tell("takes", value, state.values()); });
    }
    return true;
  }
  void ended(std::size_t node, ReplayState& state) override {
    for (const GraphResult& result : graph_.nodes[node].results) {
      if (result.value.id >= 0) tell("gives", result.value, state.values());
    }
  }

 private:
  void tell(std::string_view what, ValueRef value, const std::vector<DTensor>& values) {
    constexpr std::size_t kShown = 8;
    if (value.id < 0 || static_cast<std::size_t>(value.id) >= values.size()) return;
    const DTensor& x = values[static_cast<std::size_t>(value.id)];
    if (!x.defined()) return;
    const std::vector<Scalar> elements = scalars_of(x.local());
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < std::min(kShown, elements.size()); ++i) {
      texts.push_back(elements[i].text());
    }
    if (elements.size() > kShown) texts.emplace_back("...");
    out_ += fmt::format("        {} %{}  {}  [{}]\n", what, value.id, type_string(x.local().meta()),
                        text_of_list(texts, ", "));
  }

  const ProgramGraph& graph_;
  std::string& out_;
};

// The decisions of a replay are themselves a graph: at its first difference from the graph that was
// run, today's rules differ from the recorded ones.
std::optional<GraphDifference> decided_otherwise(const std::vector<ProgramGraph>& graphs,
                                                 Recorders& recorders) {
  std::vector<std::int64_t> ranks;
  const std::vector<ProgramGraph> now = recorders.take(ranks);
  for (std::size_t i = 0; i < now.size(); ++i) {
    auto difference = first_difference(graph_of(graphs, ranks[i]), now[i]);
    if (difference) return difference;
  }
  return std::nullopt;
}

}  // namespace

ReplayRun replay_on_ranks(const std::vector<ProgramGraph>& graphs, const OpRegistry& registry,
                          const ScenarioOptions& options, const ReplayRunOptions& how) {
  Scenario scenario = scenario_of(graphs.at(0));
  const bool drawn_anew = how.seed && *how.seed != scenario.seed;
  if (drawn_anew) scenario.seed = *how.seed;
  ReplayRun replayed{.run = prepare_run(scenario, registry, options)};
  ProgramRun ranks;
  std::atomic<bool> compared = false;
  ranks.body = [&](const RunsFor& runs, const std::vector<GivenInput>& given) {
    const std::int64_t rank = current_rank().rank;
    // Ranks whose graphs differ are of different classes.
    if (runs.questions != nullptr) {
      runs.questions->ask([&](std::int64_t other) { return number_of_graph(graphs, other); });
    }
    const ProgramGraph& graph = graph_of(graphs, rank);
    std::vector<DTensor> inputs;
    for (const GivenInput& input : given) inputs.push_back(input.value);
    ValueTeller teller(graph, replayed.of_values);
    const bool reports = how.rank == rank;
    const Replayed done = replay(graph, ranks.layout->arena(), inputs,
                                 {.until = how.until, .listener = reports ? &teller : nullptr});
    const bool known = !drawn_anew && done.complete && !graph.digests.empty() &&
                       !current_rank().device->shape_only();
    if (!known) return;
    compare_bits(graph, done, rank);
    compared = true;
  };
  Recorders recorders(replayed.run.layout);
  run_on_ranks(replayed.run, how.pinned ? &recorders : nullptr, ranks);
  replayed.bits_compared = compared;
  if (how.pinned) replayed.otherwise = decided_otherwise(graphs, recorders);
  return replayed;
}

bool fails_alike(const std::vector<ProgramGraph>& graphs, const Error& error) {
  return std::ranges::any_of(graphs, [&](const ProgramGraph& graph) {
    const bool failed = !graph.nodes.empty() && graph.nodes.back().error.has_value();
    return failed && graph.nodes.back().error->message == error.summary();
  });
}

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
  using enum ReplayOutcome;
  if (report.outcome == kBitwise) return "replay bitwise";
  if (report.outcome == kShapes) return "replay on shapes";
  return report.outcome == kFails ? "replay fails alike" : "replay differs: " + report.why;
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
