// `shardlab prove`: a promise for a schedule, or for each point of a scenario.
#include <fmt/format.h>

#include <algorithm>

#include "base/fix.h"
#include "base/place_text.h"
#include "dispatch/all_ops.h"
#include "sim/cli/open_recording.h"
#include "sim/cli/run_arguments.h"
#include "sim/files/json_value.h"
#include "sim/files/text_lines.h"
#include "sim/judge/posted_steps.h"
#include "sim/judge/promise_run.h"
#include "sim/recording/recording_file.h"
#include "sim/replay/played_calls.h"

namespace shardlab {

namespace {

// Conditions that the recorder saw fail, each line once. A receive from any rank is in the log.
void add_conditions(const RecordedProgram& program, Promise& promise) {
  for (const RecordedEvent& event : program.events) {
    if (event.kind != RecordedKind::kOther || event.name.empty()) continue;
    const bool of_rank = event.name == "barrier" || event.name == "synchronize";
    if (of_rank) continue;
    const bool thread = event.name == "thread";
    const OpenCondition fresh{
        thread ? "C4" : "C2",
        fmt::format("{}: {}", place_text(position_of(program, event)),
                    thread ? "another thread takes part, so that the order of calls is not the "
                             "program's"
                           : event.name + " depends on timing")};
    const bool known = std::ranges::any_of(
        promise.open, [&](const OpenCondition& one) { return one.text == fresh.text; });
    if (!known) promise.open.push_back(fresh);
  }
}

// A file of a recorder that notes no waits has the ranks' own order of calls, and where values are
// used: with waits for sends a rank may only stop earlier.
Promise promise_of(const RecordedProgram& program, const PromiseOptions& options) {
  const PlayedCalls played = played_calls(program);
  Promise promise = promise_of(played.log, static_cast<std::int64_t>(program.ranks));
  promise.file = program.path;
  promise.asked = options.asked.value_or(kUsualTransports);
  if (played.verdict) {
    promise.open.push_back(condition_of(*played.verdict));
    return promise;
  }
  const auto send =
      std::ranges::find(played.log.calls, CollectiveKind::kSend, &FabricLog::Call::kind);
  add_conditions(program, promise);
  promise.run(options.lazy_groups);
  const bool waits = std::ranges::any_of(program.events, [](const RecordedEvent& event) {
    return event.kind == RecordedKind::kOther && event.of;
  });
  if (send != played.log.calls.end() && !waits) {
    // Nor does it say which messages are a batch.
    std::erase_if(promise.outcomes, [](const auto& one) {
      return one.first >= Transport::kPairQueue && one.first <= Transport::kOneQueue;
    });
    promise.open.push_back(
        {"C5", fmt::format("{}: the recording does not say where a rank waits for a send: record "
                           "it again",
                           place_text(send->position))});
  }
  return promise;
}

std::vector<Promise> promises_of(const ProveArguments& arguments) {
  PromiseOptions options{.lazy_groups = arguments.run.lazy_groups, .runs = arguments.runs};
  if (!arguments.transports.empty()) options.asked.emplace();
  for (const std::string& name : arguments.transports) {
    options.asked->push_back(*parse_transport(name));
  }
  std::vector<Promise> promises;
  if (arguments.file.ends_with(".csv")) {
    const Receives receives = arguments.deferred ? Receives::kDeferred : Receives::kEarly;
    promises.push_back(promise_of(read_text(arguments.file), receives, options.lazy_groups));
    promises.back().asked = options.asked.value_or(kUsualTransports);
    promises.back().file = arguments.file;
    return promises;
  }
  const std::string path = scenario_files({arguments.file}).front();
  std::optional<ScenarioFile> file;
  if (is_recording_file(path)) {
    const RecordedProgram program = read_recording(path, export_options(arguments.run));
    if (program.ranks > 1) return {promise_of(program, options)};
    int code = kFine;
    if (std::optional<OpenedRecording> opened = open_recording(path, arguments.run, code)) {
      file = std::move(opened->file);
    }
  } else {
    refuse_recording_options(path, arguments.run);
    file = ScenarioFile::open(path, settings_of(arguments.run));
  }
  if (!file) return promises;
  for (const MatrixPoint& point : file->points()) {
    const Scenario scenario = file->at(point);
    promises.push_back(
        promise_of(scenario, all_ops(), options_of(arguments.run, scenario), options));
    promises.back().file = path;
  }
  return promises;
}

int code_of(Promise::Kind kind) {
  if (kind == Promise::Kind::kFree) return kFine;
  const bool fails = kind == Promise::Kind::kHangs || kind == Promise::Kind::kWrongDelivery;
  return fails ? kFailed : kCannotRun;
}

}  // namespace

int prove_command(const ProveArguments& arguments) {
  const std::vector<Promise> promises = promises_of(arguments);
  int code = promises.empty() ? kFailed : kFine;
  for (const Promise& promise : promises) {
    const bool json = arguments.run.common.output == Output::kJson;
    print_text(json ? json_line(promise.json()) + "\n" : promise.text());
    code = std::max(code, code_of(promise.kind()));
  }
  return code;
}

}  // namespace shardlab
