// run and test.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "ops/register.h"
#include "plan/planner_name.h"
#include "sim/cli/commands.h"
#include "sim/report/log_text.h"
#include "sim/report/run_json.h"
#include "sim/report/run_text.h"
#include "sim/scenario/scenario_file.h"
#include "sim/verify/process_records.h"
#include "sim/verify/scenario_run.h"

namespace shardlab {

namespace {

namespace fs = std::filesystem;

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

bool selected(const RunArguments& arguments, const std::string& path, const ScenarioFile& file,
              const MatrixPoint& point) {
  const auto has = [&](const std::string& text) {
    return text.find(arguments.filter) != std::string::npos;
  };
  return has(path) || has(file.title()) || has(point.name);
}

std::vector<Setting> settings_of(const RunArguments& arguments) {
  std::vector<Setting> settings;
  for (const std::string& text : arguments.settings) settings.push_back(parse_setting(text));
  if (arguments.seed_given) {
    settings.push_back(parse_setting("seed=" + std::to_string(arguments.seed)));
  }
  return settings;
}

// Sorted, so that runs are alike on every file system.
std::vector<std::string> scenario_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".toml") found.push_back(entry.path().string());
    }
    if (found.empty()) fail(ErrorKind::kValue, "no scenarios (.toml files) in {}", path);
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

// What the machine has, or what the user allows.
MemoryLimits memory_limits(const RunArguments& arguments) {
  // A fiber's stack, its context, groups, recordings: what a rank of a small scenario was seen to
  // take.
  constexpr std::int64_t kBytesPerRank = 65536;
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  return {.bytes_per_rank = kBytesPerRank,
          .available_bytes = arguments.memory_bytes.value_or(pages * page_bytes)};
}

ScenarioOptions options_of(const RunArguments& arguments) {
  ScenarioOptions options;
  options.backend = arguments.backend;
  options.checks = arguments.checks;
  options.device = arguments.device;
  options.planner = parse_planner(arguments.planner);
  options.schedule.kind = arguments.scheduler;
  options.workers = arguments.workers;
  options.sharing = arguments.sharing;
  options.memory = memory_limits(arguments);
  options.keep_elements = arguments.keep_elements;
  return options;
}

RunTextOptions text_options(const RunArguments& arguments) {
  // Launchers of processes give them a terminal, whatever is behind it.
  const bool unsure = arguments.common.color == "auto" && channel_of(arguments.backend) != nullptr;
  return {.color = unsure ? Color::kOff : arguments.common.stdout_color(), .why = arguments.why};
}

// Results go to stdout, an error that nobody expected to stderr.
void show_run(const ScenarioResult& result, const RunArguments& arguments) {
  if (result.reported_elsewhere) return;
  if (arguments.common.output == Output::kJson) return print(run_json(result) + "\n");
  print(arguments.log ? log_text(result) : run_text(result, text_options(arguments)));
  if (!result.error || result.error_expected) return;
  std::fputs(("error: " + result.error->text() + "\n").c_str(), stderr);
}

}  // namespace

int run_command(const RunArguments& arguments) {
  OpRegistry registry;
  register_all_ops(registry);
  int code = kFine;
  bool first = true;
  for (const std::string& path : scenario_files(arguments.files)) {
    const ScenarioFile file = ScenarioFile::open(path, settings_of(arguments));
    for (const MatrixPoint& point : file.points()) {
      const ScenarioResult result = run_scenario(file.at(point), registry, options_of(arguments));
      const bool shown = !result.reported_elsewhere;
      if (!first && shown && arguments.common.output == Output::kText) print("\n");
      show_run(result, arguments);
      first = false;
      if (!result.met()) code = kFailed;
    }
  }
  return code;
}

int test_command(const RunArguments& arguments) {
  OpRegistry registry;
  register_all_ops(registry);
  int passed = 0, failed = 0, unreadable = 0;
  const std::vector<std::string> files = scenario_files(arguments.files);
  for (const std::string& path : files) {
    const int code = for_one_file(arguments, [&] {
      const ScenarioFile file = ScenarioFile::open(path, settings_of(arguments));
      if (arguments.list) {
        print(fmt::format("{}\n  {}\n  {}\n", path, file.title(), file.about()));
        return static_cast<int>(kFine);
      }
      for (const MatrixPoint& point : file.points()) {
        if (!selected(arguments, path, file, point)) continue;
        const ScenarioResult result = run_scenario(file.at(point), registry, options_of(arguments));
        ++(result.met() ? passed : failed);
        if (result.reported_elsewhere) continue;
        if (arguments.common.output == Output::kText && result.met()) {
          print(run_line(result, text_options(arguments)) + "\n");
        } else {
          show_run(result, arguments);
        }
      }
      return static_cast<int>(kFine);
    });
    if (code != kFine) ++unreadable;
  }
  if (arguments.list) return unreadable > 0 ? kCannotRun : kFine;
  if (arguments.common.output == Output::kText && speaks(arguments)) {
    print(fmt::format("{} passed, {} failed\n", passed, failed + unreadable));
  }
  if (unreadable > 0) return kCannotRun;
  return failed > 0 ? kFailed : kFine;
}

}  // namespace shardlab
