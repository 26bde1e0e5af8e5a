// `shardlab run`: every point of every file, printed as it comes.
#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "dispatch/all_ops.h"
#include "sim/autopsy/flight_writer.h"
#include "sim/checkpoint/writer.h"
#include "sim/cli/interrupts.h"
#include "sim/cli/open_recording.h"
#include "sim/cli/recorded_promise.h"
#include "sim/cli/run_arguments.h"
#include "sim/cli/spec_arguments.h"
#include "sim/judge/kept_tensors.h"
#include "sim/recording/recording.h"
#include "sim/remesh/plan.h"
#include "sim/report/html_report.h"
#include "sim/report/line_reports.h"
#include "sim/report/op_work.h"
#include "sim/report/printed_text.h"
#include "sim/report/runs_table.h"
#include "sim/report/time_line.h"
#include "sim/report/why_names.h"
#include "sim/world/backends.h"

namespace shardlab {

namespace {

// Asks the file system five times a second, with functions that every system has.

namespace fs = std::filesystem;

using Stamps = std::set<std::pair<std::string, fs::file_time_type>>;

// Reports that a run writes into the folder must not start it again.
bool read_by_scenarios(const fs::path& path) {
  static constexpr std::string_view kEndings[] = {".toml", ".py", ".npy", ".graph"};
  return std::ranges::find(kEndings, path.extension().string()) != std::end(kEndings);
}

// The time of the last write of each file of the folders. A file may be removed meanwhile.
Stamps stamps_of(const std::set<fs::path>& folders) {
  Stamps stamps;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (!read_by_scenarios(entry.path())) continue;
      std::error_code gone;
      const auto written = entry.last_write_time(gone);
      if (!gone && entry.is_regular_file(gone)) stamps.emplace(entry.path().string(), written);
    }
  }
  return stamps;
}

// Runs the command, then again each time when a file in the folder of one of these was written,
// added or removed, of the kinds that scenarios read: .toml .py .npy .graph. A terminal is cleared
// before. Errors of the command are printed. Does not return; Ctrl-C ends the process.
//   fails  Value: standard input is among the files
[[noreturn]] void watch(const std::vector<std::string>& files,
                        const std::function<int()>& command) {
  std::set<fs::path> folders;
  for (const std::string& file : files) {
    if (file == "-") {
      fail(Fix{"give the name of a file, or leave --watch out"},
           "--watch: standard input does not change");
    }
    const fs::path folder = fs::path(file).parent_path();
    folders.insert(folder.empty() ? fs::path(".") : folder);
  }
  for (;;) {
    const Stamps before = stamps_of(folders);
    if (isatty(STDOUT_FILENO)) print_text("\x1b[H\x1b[2J\x1b[3J");
    guarded(command);
    print_text("\nwaiting for a change; Ctrl-C ends\n");
    std::fflush(stdout);
    while (stamps_of(folders) == before) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }
}

// The speed of our kernels on one core with AVX2, measured with 2048 x 2048 f32: 4 products took
// 1.6 s, 40 additions 0.3 s.
constexpr double kFlopsPerSecond = 4e10, kBytesPerSecond = 4e9;
// Verified runs compute everything on the ranks, for the judge of each call, and on one device, in
// the program's dtypes and, if a doubt is left, in f64.
constexpr double kTimesWhenVerified = 3;
constexpr double kLong = 60;

std::string duration_text(double seconds) {
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return seconds < 2 * 86400 ? fmt::format("{:.0f} h", seconds / 3600)
                             : fmt::format("{:.0f} days", seconds / 86400);
}

// A message for the user when a run's ranks and the run that they are compared with would compute
// for more than about a minute; nothing for shorter runs, and if shapes alone are not enough to
// tell. Runs the program without computing anything.
std::optional<std::string> forecast(const Scenario& scenario, const OpRegistry& registry,
                                    const ScenarioOptions& options) {
  ScenarioOptions shapes = options;
  shapes.backend = "fake";
  shapes.device = {};
  shapes.progress = nullptr;
  double flops = 0, bytes = 0;
  const std::optional<Refusal> unknown = refusal_of([&] {
    prepare_run(scenario, registry, options);  // a refused scenario is not run in another way first
    const ScenarioResult result = run_scenario(scenario, registry, shapes);
    if (result.run.error) return;
    for (const LineReport& line : line_reports(result, line_visits(result.run.events))) {
      flops += line.forward_flops + line.backward_flops;
      bytes += line.bytes;
    }
  });
  if (unknown) return std::nullopt;
  const auto ranks = static_cast<double>(scenario.mesh.size);
  const double times = scenario.expect.verify == Verify::kNone ? 1 : kTimesWhenVerified;
  const double seconds = times * ranks * (flops / kFlopsPerSecond + bytes / kBytesPerSecond);
  if (seconds < kLong) return std::nullopt;
  return fmt::format(
      "note: {} ranks would compute for about {} on one core ({} each); --backend fake shows all "
      "but "
      "values in seconds\n",
      scenario.mesh.size, duration_text(seconds), flops_text(flops));
}

constexpr std::string_view kAllPlans = "all";

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
    if (!first_ && !arguments_.common.json) waiting_.push_back({.out = "\n"});
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
                       const OpenedRecording& opened, FabricLog* log) {
  ScenarioOptions options = options_of(arguments, scenario);
  options.log = log;
  options.beside = opened.beside;
  if (options.device.name == DeviceChoice().name) options.alone = opened.alone;
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

// A replay compares calls and values, and has no report of a program.
void refuse_program_options(const std::string& path, const RunArguments& arguments) {
  const char* option = !arguments.html.empty()              ? "--html"
                       : !arguments.perfetto.empty()        ? "--perfetto"
                       : !arguments.flight_recorder.empty() ? "--flight-recorder"
                       : !arguments.save.empty()            ? "--save"
                       : !arguments.why.empty()             ? "--why"
                       : arguments.log                      ? "--log"
                       : arguments.line > 0                 ? "--line"
                       : arguments.memory_timeline          ? "--memory-timeline"
                                                            : nullptr;
  if (option == nullptr) return;
  fail(Fix{"run it as a program, with --mesh dp=2,tp=2, or record the script on one process"},
       "{}: {} is a recording of several ranks, which is replayed", option, path);
}

// Runs files: a scenario at every point of its matrix, a recording by every plan that is asked for.
class Runs {
 public:
  explicit Runs(const RunArguments& arguments) : arguments_(arguments), reports_(arguments_) {
    if (!arguments_.rates.empty()) {
      const auto rates = numbers_above_zero(arguments_.rates, 3);
      if (!rates || arguments_.perfetto.empty()) {
        fail(Fix{"--perfetto t.json --rates 100,2,1: TFLOP/s, TB/s and microseconds a call"},
             "--rates {}: {}", arguments_.rates,
             rates ? "only a time line has them" : "these are not three numbers above 0");
      }
      rates_ = {(*rates)[0], (*rates)[1], (*rates)[2]};
    }
    // Whole reports of all plans would hide the table.
    if (arguments_.plan == kAllPlans && arguments_.length == ReportLength::kOverview)
      arguments_.length = ReportLength::kSummary;
  }

  void add_file(const std::string& path) {
    RunsTable table(std::filesystem::path(path).filename().string());
    if (is_recording_file(path)) {
      add_recording(path, table);
    } else {
      refuse_recording_options(path, arguments_);
      add_points(path, {open_scenario(path, arguments_), nullptr}, "", table);
    }
    if (!arguments_.common.json) print({.out = table.text()});
  }

  int end() {
    reports_.end();
    if (!pages_.empty()) write_file(arguments_.html, html_page(pages_));
    return code_;
  }

 private:
  // A recording of several ranks runs as it is, unless an option takes it to another mesh.
  void add_recording(const std::string& path, RunsTable& table) {
    const auto recording =
        std::make_shared<const RecordedProgram>(read_recording(path, export_options(arguments_)));
    const bool as_recorded = recording->ranks > 1 && step_option(arguments_) == nullptr;
    if (!arguments_.types.empty() && arguments_.types != "off") {
      fail(Fix{"let the package check it: with spmd_types.checker.typecheck(\"strict\"): in the"
               " script; values are judged without --types"},
           "--types {}: {} is a recording, whose calls were made", arguments_.types, path);
    }
    if (as_recorded) {
      refuse_program_options(path, arguments_);
      code_ = std::max(code_, arguments_.transport ? run_recorded(*recording, arguments_)
                                                   : compare_recording(*recording, arguments_));
    } else if (arguments_.plan == kAllPlans) {
      add_plans(recording, table);
    } else {
      add_plan(recording, arguments_, table);
    }
  }

  void add_plans(const std::shared_ptr<const RecordedProgram>& recording, RunsTable& table) {
    RunArguments arguments = arguments_;
    std::size_t refused = 0;
    for (const std::string& plan : plan_names()) {
      arguments.plan = plan;
      try {
        add_plan(recording, arguments, table, "plan=" + plan);
      } catch (const Error& error) {
        // A fault that all plans have is no row of a table.
        if (++refused == plan_names().size()) throw;
        table.add("plan=" + plan, error.summary());
        code_ = std::max<int>(code_, kFailed);
      }
      arguments.self_test_is_known = true;
    }
  }

  void add_plan(const std::shared_ptr<const RecordedProgram>& recording,
                const RunArguments& arguments, RunsTable& table, const std::string& plan = "") {
    const auto opened = open_recording(recording, arguments, code_, SelfTesting::kBeside);
    if (opened) add_points(recording->path, *opened, plan, table);
  }

  void add_points(const std::string& path, const OpenedRecording& opened, const std::string& plan,
                  RunsTable& table) {
    for (const MatrixPoint& point : opened.file.points()) {
      Scenario scenario = opened.file.at(point);
      if (!plan.empty()) scenario.point = plan + (point.name.empty() ? "" : "," + point.name);
      if (arguments_.rank) check_printer(scenario, *arguments_.rank);
      FabricLog log;
      FabricLog* const wanted_log = arguments_.flight_recorder.empty() ? nullptr : &log;
      ScenarioResult result = watched(scenario, path, all_ops(), arguments_, opened, wanted_log);
      if (opened.beside && !opened.beside->holds()) {
        code_ = kFailed;
        return;
      }
      if (wanted_log != nullptr)
        write_flight_dumps(arguments_.flight_recorder, log, scenario.world);
      code_ = std::max(code_, code_of(result, arguments_));
      if (result.run.reported_elsewhere) continue;
      if (!arguments_.save.empty()) save(result, arguments_);
      reports_.add(result);
      table.add(scenario.point, result);
      if (!arguments_.html.empty()) pages_.push_back(html_run(result));
      if (!arguments_.perfetto.empty()) add_time_line(result.run);
    }
  }

  void add_time_line(const Run& run) {
    if (has_time_line_) {
      fail(Fix{"give one file, without [matrix]"},
           "--perfetto: a time line is of one run, and these are several");
    }
    has_time_line_ = true;
    write_file(arguments_.perfetto, time_line(run, rates_));
    if (arguments_.common.json) return;
    print({.out =
               fmt::format("time line {}: calls at {}{}\n", arguments_.perfetto, rates_text(rates_),
                           arguments_.rates.empty() ? " (assumed; --rates)" : "")});
  }

  RunArguments arguments_;
  Reports reports_;
  std::vector<std::string> pages_;
  bool has_time_line_ = false;
  CallRates rates_;
  int code_ = kFine;
};

}  // namespace

int run_command(const RunArguments& arguments) {
  const std::vector<std::string> paths = scenario_files(arguments.files);
  if (arguments.watch) {
    RunArguments once = arguments;
    once.watch = false;
    watch(paths, [&] { return run_command(once); });
  }
  Runs runs(arguments);
  for (const std::string& path : paths) runs.add_file(path);
  return runs.end();
}

}  // namespace shardlab
