// `shardlab trace` and `shardlab replay`: a program becomes a graph, and a graph runs in place of a
// program.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text.h"
#include "dispatch/all_ops.h"
#include "sim/cli/open_recording.h"
#include "sim/cli/run_arguments.h"
#include "sim/files/json_value.h"
#include "sim/graph/break_check.h"
#include "sim/graph/graph_file.h"
#include "sim/graph/graph_scenario.h"
#include "sim/graph/open_sizes.h"
#include "sim/graph/trace_report.h"
#include "sim/prove/promise.h"
#include "sim/recording/recording.h"
#include "sim/replay/replay.h"
#include "trace/graph_json.h"

namespace shardlab {

namespace {

std::string file_text(const std::vector<ProgramGraph>& graphs) {
  std::string text;
  for (const ProgramGraph& graph : graphs) text += graph_json(graph);
  return text;
}

// A graph of dynamic sizes is compared with its program, for the sizes that the scenario has here.
int check_sizes(const Scenario& scenario, const std::vector<ProgramGraph>& captured,
                const OpRegistry& registry, const TraceArguments& arguments) {
  const NamedSizes sizes = size_params(scenario);
  std::vector<ProgramGraph> graphs = with_sizes(captured, sizes);
  const ScenarioOptions options = options_of(arguments.run, scenario);
  const Captured now = capture_scenario(scenario, registry, options);
  for (ProgramGraph& graph : graphs) {
    const auto same = std::ranges::find(now.graphs, graph.ranks, &ProgramGraph::ranks);
    if (same != now.graphs.end()) graph.digests = same->digests;
  }
  const TraceReport report = compared(now, replay_on_ranks(graphs, registry, options));
  if (report.ok()) {
    print({.out = fmt::format("ok  {} guards hold, {} for {}\n", graphs.front().guards.size(),
                              outcome_text(report), sizes_text(sizes))});
    return kFine;
  }
  std::string why = report.why;
  if (why.empty() && now.run.error) why = "the program fails: " + now.run.error->summary();
  print(
      {.err = fmt::format("error: {}\n  sizes       {}\n  fix         capture the program again\n",
                          why, sizes_text(sizes))});
  return kFailed;
}

// Guards hold; elements that were read may still lead to another branch.
int check_reads(const Scenario& scenario, const std::vector<ProgramGraph>& graphs,
                std::size_t guards, const OpRegistry& registry, const TraceArguments& arguments) {
  std::string breaks;
  if (has_breaks(graphs)) {
    const BreakCheck check = check_breaks(
        graphs, capture_scenario(scenario, registry, options_of(arguments.run, scenario)));
    if (check.outcome == BreakCheck::Outcome::kElsewhere) {
      print({.err = check.text});
      return kFailed;
    }
    breaks = ", " + check.text;
  }
  print({.out = fmt::format("ok  {} guards hold{}\n", guards, breaks)});
  return kFine;
}

int check_guards(const Scenario& scenario, const OpRegistry& registry,
                 const TraceArguments& arguments) {
  const std::vector<ProgramGraph> graphs = graphs_of_file(arguments.check);
  const std::vector<Guard> facts = facts_of(scenario);
  const std::vector<CheckedGuard> answers = checked(graphs.front().guards, facts);
  print({.out = check_text(answers)});
  const auto broken = first_broken(graphs.front().guards, facts);
  if (!broken && graphs.front().dynamic) return check_sizes(scenario, graphs, registry, arguments);
  if (!broken) return check_reads(scenario, graphs, answers.size(), registry, arguments);
  print({.err = "error: " + refusal_of(*broken).text() + "\n"});
  return kFailed;
}

[[noreturn]] void refuse_ranks(const std::string& text) {
  fail(Fix{"--ranks all, or --ranks 0,3"}, "--ranks {}: not a list of ranks", text);
}

std::vector<std::int64_t> listed_ranks(const std::string& text) {
  std::vector<std::int64_t> ranks;
  for (const std::string_view part : parts_of_text(text, ",")) {
    std::int64_t rank = 0;
    const char* const end = part.data() + part.size();
    const auto [last, error] = std::from_chars(part.data(), end, rank);
    if (error != std::errc() || last != end || rank < 0) refuse_ranks(text);
    ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

RankChoice ranks_of(const TraceArguments& arguments) {
  RankChoice choice;
  if (arguments.rank) choice.ranks = {*arguments.rank};
  if (arguments.ranks == "all") {
    choice.all = true;
  } else if (!arguments.ranks.empty()) {
    choice.ranks = listed_ranks(arguments.ranks);
  }
  if (arguments.level == "program" && choice.any()) {
    fail(Fix{"--level rank, or leave the ranks out"},
         "--level program: the graph of the program is no rank's own");
  }
  choice.all = choice.all || (arguments.level == "rank" && !choice.any());
  return choice;
}

// The form that is asked for instead of a report, by the name of its option, and the graph in it.
std::pair<std::string_view, std::string> asked_form(const Captured& captured,
                                                    const OpRegistry& registry,
                                                    const TraceArguments& arguments) {
  if (arguments.dot) return {"dot", graph_dot(captured.graphs.at(0))};
  if (arguments.toml) return {"toml", graph_scenario(captured.graphs, registry)};
  return {};
}

// Prints the captured graphs, in the form that is asked for.
int tell(const Captured& captured, const OpRegistry& registry, const ScenarioOptions& options,
         const TraceArguments& arguments) {
  const TraceReport report =
      compared(captured, replay_on_ranks(captured.graphs, registry, options));
  if (!arguments.out.empty()) write_file(arguments.out, file_text(captured.graphs));
  const auto [form, text] = asked_form(captured, registry, arguments);
  if (arguments.run.common.json) {
    print({.out = trace_json(captured, report, form, text)});
  } else {
    print({.out = form.empty() ? trace_text(captured, report) : text});
  }
  return report.ok() ? kFine : kFailed;
}

int trace_point(const Scenario& scenario, const OpRegistry& registry,
                const TraceArguments& arguments) {
  if (!arguments.check.empty()) return check_guards(scenario, registry, arguments);
  const ScenarioOptions options = options_of(arguments.run, scenario);
  return tell(capture_scenario(scenario, registry, options, ranks_of(arguments)), registry, options,
              arguments);
}

// Values of --set for a graph: sizes of its inputs.
NamedSizes sizes_of(const TraceArguments& arguments) {
  NamedSizes sizes;
  for (const std::string& text : arguments.run.settings) {
    const Setting setting = parse_setting(text);
    const bool params = setting.key.starts_with("params.");
    const auto* size = std::get_if<std::int64_t>(&setting.value);
    if (size == nullptr) {
      fail(Fix{fmt::format("--set {}=8", setting.key)}, "a graph takes sizes, and '{}' is none",
           text);
    }
    sizes.emplace_back(params ? setting.key.substr(7) : setting.key, *size);
  }
  return sizes;
}

// Refuses a node or a rank that the graphs do not have.
void check_asked(const std::vector<ProgramGraph>& graphs, const TraceArguments& arguments) {
  const ProgramGraph& first = graphs.front();
  std::int64_t nodes = 0;
  for (const ProgramGraph& graph : graphs) {
    nodes = std::max(nodes, static_cast<std::int64_t>(graph.nodes.size()));
  }
  if (arguments.until && *arguments.until >= nodes) {
    fail(Fix{fmt::format("give a number below {}", nodes)},
         "--until {}: the graph of {} has {} nodes", *arguments.until, first.file, nodes);
  }
  const std::int64_t ranks = first.world;
  if (arguments.rank && *arguments.rank >= ranks) {
    fail(Fix{fmt::format("give a number below {}", ranks)},
         "--rank {}: the graph of {} was captured on {} ranks", *arguments.rank, first.file, ranks);
  }
}

// One line for a graph with the results of its program.
int replay_graphs(std::vector<ProgramGraph> graphs, const OpRegistry& registry,
                  const TraceArguments& arguments) {
  check_asked(graphs, arguments);
  const NamedSizes sizes = sizes_of(arguments);
  if (!sizes.empty()) graphs = with_sizes(std::move(graphs), sizes);
  const ReplayRunOptions asked{.until = arguments.until.value_or(-1),
                               .rank = arguments.rank,
                               .pinned = arguments.pinned,
                               .seed = seed_of_inputs(arguments.run)};
  const ScenarioOptions options = options_of(arguments.run, {});
  const ReplayRun replayed = replay_on_ranks(graphs, registry, options, asked);
  const ProgramGraph& first = graphs.front();
  const auto& error = replayed.run.error;
  const bool fails = error && !fails_alike(graphs, *error);
  if (replayed.run.reported_elsewhere) {
    return fails ? code_of_failure(replayed.run, arguments.run) : kFine;
  }
  print({.out = replayed.of_values});
  if (replayed.otherwise) {
    print({.err = fmt::format("error: node {} is decided otherwise today\n  then        {}\n"
                              "  now         {}\n  fix         capture the program again\n",
                              replayed.otherwise->node, replayed.otherwise->a,
                              replayed.otherwise->b)});
    return kFailed;
  }
  if (fails) {
    print({.err = "error: " + error->text() + "\n"});
    return code_of_failure(replayed.run, arguments.run);
  }
  const std::string how = error                    ? "fails as it did"
                          : replayed.bits_compared ? "bitwise"
                          : arguments.until        ? "as far as asked for"
                          : !sizes.empty()         ? "for " + sizes_text(sizes)
                          : asked.seed             ? fmt::format("with seed {}", *asked.seed)
                                                   : "on shapes";
  if (arguments.run.common.json) {
    print({.out = replay_json(first, how)});
    return kFine;
  }
  print({.out = fmt::format("ok  {} of {}: {} nodes on {} ranks, {}\n", first.title, first.file,
                            first.nodes.size(), first.world, how)});
  return kFine;
}

// A recorded step is a scenario, too; what it says of itself is no part of the graph.
std::optional<ScenarioFile> opened_file(const std::string& path, RunArguments arguments,
                                        int& code) {
  if (!is_recording_file(path)) {
    refuse_recording_options(path, arguments);
    return open_scenario(path, arguments);
  }
  arguments.common.json = true;
  auto opened = open_recording(path, arguments, code);
  if (!opened) return std::nullopt;
  return std::move(opened->file);
}

}  // namespace

int trace_command(const TraceArguments& arguments) {
  const OpRegistry& registry = all_ops();
  const std::string path = scenario_files({arguments.file}).front();
  if (path.ends_with(".graph") && arguments.toml) {
    print({.out = graph_scenario(graphs_of_file(path), registry)});
    return kFine;
  }
  int code = kFine;
  const auto opened = opened_file(path, arguments.run, code);
  if (!opened) return code;
  const ScenarioFile& file = *opened;
  const char* one = arguments.toml ? "--toml" : "--out";
  if ((!arguments.out.empty() || arguments.toml) && file.points().size() > 1) {
    std::string chosen = file.points().front().name;
    for (std::size_t at = 0; (at = chosen.find(',', at)) != std::string::npos;) {
      chosen.replace(at, 1, " --set ");
    }
    fail(Fix{"choose one with --set " + chosen},
         "{}: the scenario has {} points, each a program of its own", one, file.points().size());
  }
  for (const MatrixPoint& point : file.points()) {
    code = std::max(code, trace_point(file.at(point), registry, arguments));
  }
  return code;
}

int compare_recording(const RecordedProgram& recording, const RunArguments& arguments,
                      const Promise* promise) {
  print_notes(recording.notes);
  const ReplayReport replay = replay_recording(recording, replay_settings_of(arguments));
  if (arguments.common.json) {
    auto json = replay_json(recording, replay);
    if (promise != nullptr) json["promise"] = promise->json();
    print_text(json_line(json) + "\n");
  } else {
    std::string text = promise == nullptr ? "" : promise->text();
    text.resize(std::min(text.find("next: "), text.size()));  // it would be this run again
    print_text(replay_text(recording, replay) + text);
  }
  return replay.ok() ? kFine : kFailed;
}

int replay_command(const TraceArguments& arguments) {
  int code = kFine;
  for (const std::string& path : arguments.run.files) {
    if (is_recording_file(path)) {
      const RecordedProgram recording = read_recording(path, export_options(arguments.run));
      code = std::max(code, compare_recording(recording, arguments.run));
    } else {
      refuse_recording_options(path, arguments.run);
      code = std::max(code, replay_graphs(graphs_of_file(path), all_ops(), arguments));
    }
  }
  return code;
}

}  // namespace shardlab
