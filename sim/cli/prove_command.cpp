// `shardlab prove`: a promise for a schedule, or for each point of a scenario.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "dispatch/all_ops.h"
#include "sim/cli/open_recording.h"
#include "sim/cli/recorded_promise.h"
#include "sim/cli/run_arguments.h"
#include "sim/files/json_value.h"
#include "sim/files/text_lines.h"
#include "sim/judge/promise_run.h"
#include "sim/recording/recording_file.h"

namespace shardlab {

namespace {

std::vector<Promise> promises_of(const ProveArguments& arguments) {
  PromiseOptions options{.lazy_groups = arguments.run.lazy_groups, .runs = arguments.runs};
  if (!arguments.transports.empty()) options.asked.emplace();
  for (const std::string& name : arguments.transports) {
    options.asked->push_back(*parse_transport(name));
  }
  std::vector<Promise> promises;
  const bool schedule = arguments.file.ends_with(".csv");
  const bool sized = !arguments.run.mesh.empty() || !arguments.run.settings.empty();
  if (schedule ? sized : arguments.deferred) {
    fail(Fix{"leave it out"}, "{}: {}", arguments.file,
         schedule ? "a pipeline schedule has no mesh and no settings"
                  : "--defer is for a pipeline schedule as CSV");
  }
  if (schedule) {
    const Receives receives = arguments.deferred ? Receives::kDeferred : Receives::kEarly;
    promises.push_back(promise_of(read_text(arguments.file), receives, options.lazy_groups));
    promises.back().asked = options.asked.value_or(kUsualTransports);
    promises.back().file = arguments.file;
    return promises;
  }
  const std::string path = scenario_files({arguments.file}).front();
  std::optional<ScenarioFile> file;
  if (is_recording_file(path)) {
    auto program = std::make_shared<const RecordedProgram>(
        read_recording(path, export_options(arguments.run)));
    if (program->ranks > 1) return {promise_of(*program, options)};
    int code = kFine;
    if (auto opened = open_recording(std::move(program), arguments.run, code)) {
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
    const bool json = arguments.run.common.json;
    print_text(json ? json_line(promise.json()) + "\n" : promise.text());
    code = std::max(code, code_of(promise.kind()));
  }
  return code;
}

}  // namespace shardlab
