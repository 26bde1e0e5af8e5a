// Ranks run at the same time and write down what they see of each value; the judgement comes when
// all have ended.
#include "sim/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "sim/files/json_value.h"
#include "sim/replay/recorded_types.h"
#include "sim/replay/replay_judge.h"
#include "sim/replay/second_look.h"

namespace shardlab {

namespace {

// A world that failed as a whole: the ranks that failed by themselves, at their events.
void add_failures(const RecordedProgram& program, const WorldResult& result,
                  const std::vector<std::unique_ptr<Watch>>& watches, ReplayReport& report) {
  for (const RankFailure& failure : result.failures) {
    const RecordedEvent& event =
        program.events[watches.at(static_cast<std::size_t>(failure.rank))->at()];
    const std::string place = place_of(program, event);
    if (is_out_of_memory(failure.error)) {
      throw Error(failure.error)
          .with("event", fmt::format("{}  {}", event.line, place.empty() ? event.name : place));
    }
    if (failure.foreign) std::rethrow_exception(failure.foreign);
    if (failure.error.find("event") != nullptr || failure.error.kind() == ErrorKind::kValue) {
      throw failure.error;
    }
    if (failure.consequence && report.differences.size() > 0) continue;
    report.differences.push_back(
        difference_at(program, event, "error", "a result", failure.error.text()));
  }
}

// Calls that have no other side, and messages that reach a receive of another one.
void add_lost_messages(const RecordedProgram& program, const PlayedGraph& graph,
                       ReplayReport& report) {
  for (const auto& [receive, send] : graph.messages) {
    const RecordedEvent &here = program.events[receive], &there = program.events[send];
    if (here.name == there.name || here.name.empty() || there.name.empty()) continue;
    report.differences.push_back(
        difference_at(program, here, "message", here.name,
                      fmt::format("{}, which rank {} sent", there.name, there.rank)));
  }
  for (const std::size_t i : graph.alone) {
    const RecordedEvent& event = program.events[i];
    const bool message = is_recorded_message(event);
    const char* const whom = is_recorded_send(event) ? "a rank that receives it"
                             : message               ? "a rank that sends it"
                                                     : "all ranks of its group";
    report.differences.push_back(difference_at(program, event, message ? "message" : "collective",
                                               whom, message ? "none" : "some of them"));
  }
}

}  // namespace

ReplayReport replay_recording(const RecordedProgram& program, const ReplaySettings& settings) {
  const PlayedGraph graph = played_graph(program);
  RecordedWorld world(program, settings);
  SeenTable seen(program, world.ranks());
  const auto watches = world.watches<Watch>(graph, seen);
  const WorldResult result = world.play(graph, watches);
  ReplayJudge judge(program, graph, seen);
  ReplayReport report = judge.judge();
  report.failed = !program.error.empty();
  if (!program.shapes_only) add_lost_messages(program, graph, report);
  add_failures(program, result, watches, report);
  if (!judge.suspects().empty() && result.ok()) {
    look_again(program, graph, world, judge.suspects(), report);
  } else {
    for (Suspect& one : judge.suspects()) report.differences.push_back(std::move(one.difference));
  }
  if (result.ok()) {
    TypesJudgement types = judge_types(program);
    report.typed = types.judged;
    std::ranges::move(types.wrong, std::back_inserter(report.differences));
  }
  std::ranges::stable_sort(report.differences, {}, &ReplayDifference::line);
  return report;
}

std::string text(const ReplayDifference& difference, std::string_view verdict) {
  std::string shown = fmt::format("{} event {}  {}  {}  {}\n  expected {}\n  got      {}\n",
                                  verdict, difference.line, difference.place, difference.op,
                                  difference.field, difference.expected, difference.got);
  if (!difference.known.empty()) shown += fmt::format("  known    {}\n", difference.known);
  return shown;
}

namespace {

std::string first_of(const std::vector<ReplayDifference>& differences, std::string_view verdict) {
  constexpr std::size_t kMostShown = 20;
  std::string shown;
  for (std::size_t i = 0; i < std::min(kMostShown, differences.size()); ++i) {
    shown += text(differences[i], verdict);
  }
  if (differences.size() > kMostShown) {
    shown += fmt::format("... and {} more\n", differences.size() - kMostShown);
  }
  return shown;
}

Json list_of(const std::vector<ReplayDifference>& differences) {
  Json list = Json::array();
  for (const ReplayDifference& one : differences) {
    list.push_back({{"event", one.line},
                    {"place", one.place},
                    {"op", one.op},
                    {"field", one.field},
                    {"expected", one.expected},
                    {"got", one.got}});
    if (!one.known.empty()) list.back()["known"] = one.known;
  }
  return list;
}

}  // namespace

std::string replay_text(const RecordedProgram& program, const ReplayReport& report) {
  std::string shown = first_of(report.differences, "FAIL") + first_of(report.rules, "RULE") +
                      first_of(report.reference, "REFERENCE");
  for (const std::string& op : report.missing) {
    const bool has_reason = op.find(": ") != std::string::npos;
    shown +=
        has_reason ? op + "\n" : fmt::format("{} does not exist here: {}\n", op, without_op(op));
  }
  if (!program.error.empty()) {
    shown += fmt::format("the program failed when it was recorded: {}\n", program.error);
  }
  std::string rest;
  if (report.undecided > 0) rest += fmt::format(", {} rounding alone", report.undecided);
  if (report.unknown > 0) {
    rest += fmt::format(", {} without a recorded value", report.unknown);
    if (program.exported) rest += " have PyTorch's shape and dtype";
  }
  if (report.skipped + report.unjudged > 0) {
    rest += fmt::format(", not judged: {} ops", report.skipped + report.unjudged);
  }
  if (!report.rules.empty()) {
    rest += fmt::format(", {} by a rule that is not ours", report.rules.size());
  }
  if (!report.reference.empty()) {
    rest += fmt::format(", {} in which PyTorch is wrong", report.reference.size());
  }
  if (report.better > 0) rest += fmt::format(", {} that PyTorch refuses run here", report.better);
  if (report.typed > 0) rest += fmt::format(", {} claims and moves of types", report.typed);
  const std::string ranks = program.ranks == 1 ? "" : fmt::format("{} ranks, ", program.ranks);
  return shown + fmt::format("{:6} {}  PyTorch {}, {}{} ops: {} results agree, {} differ{}\n",
                             report.ok() ? "ok" : "FAILED", program.path, program.torch, ranks,
                             report.ops, report.agree, report.differences.size(), rest);
}

Json replay_json(const RecordedProgram& program, const ReplayReport& report) {
  return {{"file", program.path},
          {"torch", program.torch},
          {"ranks", program.ranks},
          {"ok", report.ok()},
          {"ops", report.ops},
          {"agree", report.agree},
          {"differ", report.differences.size()},
          {"undecided", report.undecided},
          {"unknown", report.unknown},
          {"skipped", report.skipped},
          {"unjudged", report.unjudged},
          {"typed", report.typed},
          {"failed", report.failed},
          {"better", report.better},
          {"missing", report.missing},
          {"rules", list_of(report.rules)},
          {"reference", list_of(report.reference)},
          {"differences", list_of(report.differences)}};
}

}  // namespace shardlab
