// `shardlab run`: every point of every file, printed as it comes.
#include "base/fix.h"
#include "dispatch/all_ops.h"
#include "sim/autopsy/flight_writer.h"
#include "sim/checkpoint/writer.h"
#include "sim/cli/failing_point.h"
#include "sim/cli/forecast.h"
#include "sim/cli/interrupts.h"
#include "sim/cli/open_recording.h"
#include "sim/cli/run_arguments.h"
#include "sim/cli/watch.h"
#include "sim/judge/kept_tensors.h"
#include "sim/recording/recording_file.h"
#include "sim/report/html_report.h"
#include "sim/report/printed_text.h"
#include "sim/report/time_line.h"
#include "sim/report/why_names.h"
#include "sim/world/backends.h"

namespace shardlab {

namespace {

// Prints runs as they come. Runs without the name of --why or --line wait for one that has it: if
// there is none, the name is wrong.
class Reports {
 public:
  explicit Reports(const RunArguments& arguments) : arguments_(arguments) {}

  void add(const ScenarioResult& result) {
    if (result.run.reported_elsewhere) return;
    std::optional<Error> unknown;
    if (!result.run.error) {
      unknown = nothing_asked(result, arguments_.why);
      if (!unknown) unknown = nothing_on_line(result, arguments_.line);
    }
    if (!first_ && arguments_.common.output == Output::kText) waiting_.push_back({.out = "\n"});
    first_ = false;
    waiting_.push_back(output_of(result, arguments_));
    if (unknown && !asked_) {
      if (!problem_) problem_ = std::move(unknown);
      return;
    }
    asked_ = true;
    for (const RunOutput& one : waiting_) print(one);
    waiting_.clear();
  }

  void end() const {
    if (problem_ && !asked_) throw Error(*problem_);
  }

 private:
  const RunArguments& arguments_;
  std::vector<RunOutput> waiting_;
  std::optional<Error> problem_;
  bool asked_ = false;
  bool first_ = true;
};

// Prints before a long run that it will be one, and while it runs its place.
ScenarioResult watched(const Scenario& scenario, const std::string& path,
                       const OpRegistry& registry, const RunArguments& arguments,
                       std::shared_ptr<KnownAlone> alone, FabricLog* log) {
  ScenarioOptions options = options_of(arguments, scenario);
  options.log = log;
  if (options.device.name == DeviceChoice().name) options.alone = std::move(alone);
  // A process that waits for others is not to be woken by a timer.
  if (channel_of(arguments) != nullptr) return run_scenario(scenario, registry, options);
  if (!is_shape_only(options.backend)) {
    if (const auto note = forecast(scenario, registry, options)) print({.err = *note});
  }
  const ProgressLine line(path);
  options.progress = &shown_progress();
  return run_scenario(scenario, registry, options);
}

// The values of a run that is not a failure.
void save(ScenarioResult& result, const RunArguments& arguments) {
  if (result.run.error) return;
  const KeptTensors kept = kept_tensors(result.judgement.values, result.run.layout);
  WriteOptions options{.mesh = result.run.layout};
  options.placed = [&kept](std::size_t i) { return kept.specs[i]; };
  write_tensors(arguments.save, kept.tensors, options);
  if (arguments.keep_elements > 0) return;
  for (ValueReport& value : result.judgement.values) value.kept.clear();
}

}  // namespace

int run_command(const RunArguments& arguments) {
  const std::vector<std::string> paths = scenario_files(arguments.files);
  if (arguments.watch) {
    RunArguments once = arguments;
    once.watch = false;
    watch(paths, [&] { return run_command(once); });
  }
  const OpRegistry& registry = all_ops();
  int code = kFine;
  Reports reports(arguments);
  std::vector<std::string> pages;
  int time_lines = 0;
  for (const std::string& path : paths) {
    std::optional<ScenarioFile> file;
    std::shared_ptr<KnownAlone> alone;
    if (is_recording_file(path)) {
      auto opened = open_recording(path, arguments, code);
      if (!opened) continue;
      file = std::move(opened->file);
      alone = std::move(opened->alone);
    } else {
      refuse_recording_options(path, arguments);
      file = open_scenario(path, arguments);
    }
    for (const MatrixPoint& point : file->points()) {
      const Scenario scenario = file->at(point);
      if (arguments.rank) check_printer(scenario, *arguments.rank);
      FabricLog log;
      FabricLog* const wanted_log = arguments.flight_recorder.empty() ? nullptr : &log;
      ScenarioResult result = watched(scenario, path, registry, arguments, alone, wanted_log);
      if (wanted_log != nullptr) {
        write_flight_dumps(arguments.flight_recorder, log, scenario.world);
      }
      if (!arguments.save.empty() && !result.run.reported_elsewhere) save(result, arguments);
      reports.add(result);
      const bool wanted = !arguments.html.empty() && !result.run.reported_elsewhere;
      if (wanted) pages.push_back(html_run(result));
      if (!arguments.perfetto.empty() && !result.run.reported_elsewhere) {
        if (++time_lines > 1) {
          fail(Fix{"give one file, without [matrix]"},
               "--perfetto: a time line is of one run, and these are several");
        }
        write_file(arguments.perfetto, time_line(result.run));
      }
      code = std::max(code, code_of(result, arguments));
    }
  }
  reports.end();
  if (!pages.empty()) write_file(arguments.html, html_page(pages));
  return code;
}

}  // namespace shardlab
