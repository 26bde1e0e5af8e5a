// `shardlab trace` and `shardlab replay`: a program becomes a graph, and a graph runs in place of a
// program.
#include <algorithm>
#include <charconv>

#include "base/fix.h"
#include "dispatch/all_ops.h"
#include "sim/capture/break_check.h"
#include "sim/capture/graph_file.h"
#include "sim/capture/graph_program.h"
#include "sim/capture/graph_scenario.h"
#include "sim/capture/open_sizes.h"
#include "sim/capture/recorded_capture.h"
#include "sim/capture/trace_report.h"
#include "sim/cli/failing_point.h"
#include "sim/cli/run_arguments.h"
#include "sim/cli/step_command.h"
#include "sim/record/json_value.h"
#include "sim/record/step_file.h"
#include "sim/recorded/check_programs.h"
#include "sim/recorded/known_differences.h"
#include "sim/recorded/step_replay.h"
#include "sim/run/process_records.h"
#include "trace/graph_json.h"
#include "trace/graph_lines.h"

namespace shardlab {

namespace {

std::string file_text(const std::vector<ProgramGraph>& graphs, const TraceArguments& arguments) {
  std::string text;
  for (const ProgramGraph& graph : graphs) {
    text += arguments.text ? graph_lines(graph) : graph_json(graph);
  }
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
  if (recording_of_file(arguments.check)) {
    fail(ErrorKind::kValue,
         Fix{fmt::format("shardlab trace {} --out g.graph, then --check g.graph", arguments.check)},
         "{}: a recording has no guards, a graph that was captured of it has", arguments.check);
  }
  const std::vector<ProgramGraph> graphs = graphs_of_file(arguments.check);
  const std::vector<Guard> facts = facts_of(scenario);
  const std::vector<CheckedGuard> answers = checked(graphs.front().guards, facts);
  print({.out = check_text(answers)});
  const auto broken = first_broken(graphs.front().guards, facts);
  if (!broken && graphs.front().dynamic) {
    return check_sizes(scenario, graphs, registry, arguments);
  }
  if (!broken) return check_reads(scenario, graphs, answers.size(), registry, arguments);
  print({.err = "error: " + refusal_of(*broken).text() + "\n"});
  return kFailed;
}

[[noreturn]] void refuse_ranks(const std::string& text) {
  fail(ErrorKind::kValue, Fix{"--ranks all, or --ranks 0,3"}, "--ranks {}: not a list of ranks",
       text);
}

std::vector<std::int64_t> listed_ranks(const std::string& text) {
  std::vector<std::int64_t> ranks;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::int64_t rank = 0;
    const auto [last, error] = std::from_chars(&text[at], text.data() + end, rank);
    if (error != std::errc() || last != text.data() + end || rank < 0) refuse_ranks(text);
    ranks.push_back(rank);
    at = end + 1;
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
    fail(ErrorKind::kValue, Fix{"--level rank, or leave the ranks out"},
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
  if (arguments.cpp) return {"cpp", graph_program(captured.graphs, registry)};
  if (!arguments.text || !arguments.out.empty()) return {};
  const bool of_ranks = !captured.of_ranks.empty();
  return {"text", file_text(of_ranks ? captured.of_ranks : captured.graphs, arguments)};
}

// Prints the captured graphs, in the form that is asked for.
int tell(const Captured& captured, const OpRegistry& registry, const ScenarioOptions& options,
         const TraceArguments& arguments) {
  const TraceReport report =
      compared(captured, replay_on_ranks(captured.graphs, registry, options));
  if (!arguments.out.empty()) write_file(arguments.out, file_text(captured.graphs, arguments));
  const bool json = arguments.run.common.output == Output::kJson;
  const auto [form, text] = asked_form(captured, registry, arguments);
  if (json) {
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

ScenarioOptions options_of(const RecordedProgram& recording, const TraceArguments& arguments) {
  Scenario wants;
  wants.backend = recording.backend;
  return options_of(arguments.run, wants);
}

int trace_recording(const RecordedProgram& recording, const OpRegistry& registry,
                    const TraceArguments& arguments) {
  if (!arguments.check.empty()) {
    fail(ErrorKind::kValue, Fix{"shardlab replay " + recording.path + " compares every call"},
         "{}: facts are checked against a scenario, and this is a recording", recording.path);
  }
  const ScenarioOptions options = options_of(recording, arguments);
  return tell(capture_recording(recording, registry, options, ranks_of(arguments)), registry,
              options, arguments);
}

// Values of --set for a graph: sizes of its inputs.
NamedSizes sizes_of(const TraceArguments& arguments) {
  NamedSizes sizes;
  for (const std::string& text : arguments.run.settings) {
    const Setting setting = parse_setting(text);
    const bool params = setting.key.starts_with("params.");
    const auto* size = std::get_if<std::int64_t>(&setting.value);
    if (size == nullptr) {
      fail(ErrorKind::kValue, Fix{fmt::format("--set {}=8", setting.key)},
           "a graph takes sizes, and '{}' is none", text);
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
    fail(ErrorKind::kValue, Fix{fmt::format("give a number below {}", nodes)},
         "--until {}: the graph of {} has {} nodes", *arguments.until, first.file, nodes);
  }
  const std::int64_t ranks = first.world;
  if (arguments.rank && *arguments.rank >= ranks) {
    fail(ErrorKind::kValue, Fix{fmt::format("give a number below {}", ranks)},
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
  if (replayed.run.reported_elsewhere) return kFine;
  const ProgramGraph& first = graphs.front();
  print({.out = replayed.of_values});
  if (replayed.otherwise) {
    print({.err = fmt::format("error: node {} is decided otherwise today\n  then        {}\n"
                              "  now         {}\n  fix         capture the program again\n",
                              replayed.otherwise->node, replayed.otherwise->a,
                              replayed.otherwise->b)});
    return kFailed;
  }
  const auto& error = replayed.run.error;
  if (error && !fails_alike(graphs, *error)) {
    print({.err = "error: " + error->text() + "\n"});
    return kFailed;
  }
  const std::string how = error                    ? "fails as it did"
                          : replayed.bits_compared ? "bitwise"
                          : arguments.until        ? "as far as asked for"
                          : !sizes.empty()         ? "for " + sizes_text(sizes)
                          : asked.seed             ? fmt::format("with seed {}", *asked.seed)
                                                   : "on shapes";
  if (arguments.run.common.output == Output::kJson) {
    print({.out = replay_json(first, how)});
    return kFine;
  }
  print({.out = fmt::format("ok  {} of {}: {} nodes on {} ranks, {}\n", first.title, first.file,
                            first.nodes.size(), first.world, how)});
  return kFine;
}

}  // namespace

namespace {

// A recorded step is a scenario, too; what it says of itself is no part of the graph.
std::optional<ScenarioFile> opened_file(const std::string& path, RunArguments arguments,
                                        int& code) {
  if (!is_step_file(path)) {
    refuse_step_options(path, arguments);
    return open_scenario(path, arguments);
  }
  arguments.common.output = Output::kJson;
  auto opened = open_step(path, arguments, code);
  if (!opened) return std::nullopt;
  return std::move(opened->file);
}

}  // namespace

int trace_command(const TraceArguments& arguments) {
  const OpRegistry& registry = all_ops();
  const std::string path = scenario_files({arguments.file}).front();
  if (!path.ends_with(".toml")) {
    const auto recording = recording_of_file(path);
    if (recording) return trace_recording(*recording, registry, arguments);
  }
  if (path.ends_with(".graph") && arguments.toml) {
    print({.out = graph_scenario(graphs_of_file(path), registry)});
    return kFine;
  }
  int code = kFine;
  const auto opened = opened_file(path, arguments.run, code);
  if (!opened) return code;
  const ScenarioFile& file = *opened;
  const char* one = arguments.toml ? "--toml" : arguments.cpp ? "--cpp" : "--out";
  if ((!arguments.out.empty() || arguments.toml || arguments.cpp) && file.points().size() > 1) {
    std::string chosen = file.points().front().name;
    for (std::size_t at = 0; (at = chosen.find(',', at)) != std::string::npos;) {
      chosen.replace(at, 1, " --set ");
    }
    fail(ErrorKind::kValue, Fix{"choose one with --set " + chosen},
         "{}: the scenario has {} points, each a program of its own", one, file.points().size());
  }
  for (const MatrixPoint& point : file.points()) {
    code = std::max(code, trace_point(file.at(point), registry, arguments));
  }
  return code;
}

namespace {

// Every call of recordings, compared with its recorded results.
int compare_recordings(const std::vector<std::string>& paths, Output output) {
  const KnownDifferences known = KnownDifferences::nearest(paths.front());
  CheckRun run({&kRecordedPrograms, 1}, &known, {});
  for (const std::string& path : paths) run.check_file(path);
  const CheckSummary summary = run.finish();
  print_text(output == Output::kJson ? json_line(summary.json()) + "\n" : summary.text());
  return summary.failed == 0 ? kFine : kFailed;
}

// Every op of a step, compared with its recorded results.
int compare_step(const std::string& path, const RunArguments& arguments) {
  const Output output = arguments.common.output;
  const StepRecording recording = read_step(path, export_options(arguments));
  const StepReplay replay = replay_step(recording, {}, most_bytes_of(arguments));
  print_text(output == Output::kJson ? replay_json(recording, replay).dump() + "\n"
                                     : replay_text(recording, replay));
  return replay.ok() ? kFine : kFailed;
}

}  // namespace

int replay_command(const TraceArguments& arguments) {
  const OpRegistry& registry = all_ops();
  std::vector<std::string> recordings;
  // As it is, a recording is compared call by call; else it is captured, and its graph runs.
  const bool as_graph =
      arguments.until || arguments.rank || arguments.pinned || !arguments.run.backend.empty();
  int code = kFine;
  for (const std::string& path : arguments.run.files) {
    if (is_step_file(path)) {
      code = std::max(code, compare_step(path, arguments.run));
      continue;
    }
    const auto recording = recording_of_file(path);
    if (recording && !as_graph) {
      recordings.push_back(path);
    } else if (recording) {
      const Captured captured =
          capture_recording(*recording, registry, {.backend = recording->backend});
      code = std::max(code, replay_graphs(captured.graphs, registry, arguments));
    } else {
      code = std::max(code, replay_graphs(graphs_of_file(path), registry, arguments));
    }
  }
  if (recordings.empty()) return code;
  return std::max(code, compare_recordings(recordings, arguments.run.common.output));
}

}  // namespace shardlab
