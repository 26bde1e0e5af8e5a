// Arguments of the command line become options of a run, and results become text: common parts of
// `run` and `test`.
#include "sim/cli/run_arguments.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "base/program_path.h"
#include "base/text.h"
#include "plan/planner_name.h"
#include "sim/cli/options.h"
#include "sim/cli/spec_arguments.h"
#include "sim/language/syntax/characters.h"
#include "sim/report/log_text.h"
#include "sim/report/memory_text.h"
#include "sim/report/run_json.h"
#include "sim/world/devices.h"

namespace shardlab {

namespace {

namespace fs = std::filesystem;

bool seeded(const RunArguments& arguments) {
  return arguments.schedules > 0 || arguments.scheduler == SchedulerKind::kSeeded;
}

MemoryLimits memory_limits(const RunArguments& arguments) {
  // A fiber's stack, its context, groups, recordings: as measured for a rank of a small scenario.
  constexpr std::int64_t kBytesPerRank = 65536;
  return {.bytes_per_rank = kBytesPerRank, .available_bytes = most_bytes_of(arguments)};
}

// Other ranks' events are not known if each rank keeps its own.
void require_all_ranks(const std::string& option, const std::string& backend) {
  if (!is_shape_only(backend) && channel_of(backend) == nullptr) return;
  fail(ErrorKind::kUnsupported,
       Fix{fmt::format("--backend threads, or leave {} out", option.substr(0, option.find(' ')))},
       "{}: with backend {} the log and the JSON are those of one rank, the mesh's first", option,
       backend);
}

}  // namespace

std::int64_t most_bytes_of(const RunArguments& arguments) {
  return arguments.memory_bytes.value_or(machine_bytes());
}

std::optional<std::uint64_t> seed_of_inputs(const RunArguments& arguments) {
  return seeded(arguments) ? std::nullopt : arguments.seed;
}

std::vector<Setting> settings_of(const RunArguments& arguments) {
  std::vector<Setting> settings;
  for (const std::string& text : arguments.settings) settings.push_back(parse_setting(text));
  for (const std::string& text : arguments.links) {
    const LinkArgument link = parse_link(text);
    const std::string dim = "topology." + link.dim;
    settings.push_back(parse_setting(fmt::format("{}.gbps={}", dim, link.gbps)));
    settings.push_back(parse_setting(fmt::format("{}.us={}", dim, link.us)));
  }
  if (const auto seed = seed_of_inputs(arguments)) {
    settings.push_back(parse_setting("seed=" + std::to_string(*seed)));
  }
  return settings;
}

namespace {

// Folders of shipped scenarios: below the current folder, next to the folder that the program was
// built in, and the one it was installed to.
std::vector<fs::path> shipped_folders() {
  const fs::path program = program_path().parent_path();
  return {"scenarios", program.parent_path() / "scenarios",
          program.parent_path() / "share/shardlab/scenarios"};
}

// Relative to the current folder, if it is below it.
std::string seen_from_here(const fs::path& path) {
  const fs::path relative = path.lexically_proximate(fs::current_path());
  return relative.string().starts_with("..") ? path.string() : relative.string();
}

// "models/megatron_mlp", "models": the names in the folder that is found first.
std::vector<std::string> shipped_names() {
  for (const fs::path& folder : shipped_folders()) {
    if (!fs::is_directory(folder)) continue;
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      fs::path name = entry.path().lexically_relative(folder);
      if (!entry.is_directory() && name.extension() != ".toml") continue;
      names.push_back(name.replace_extension().string());
    }
    std::ranges::sort(names);
    return names;
  }
  return {};
}

// A word that is not a path is the name of a shipped scenario: "models/megatron_mlp", or
// "megatron_mlp" if one folder alone has it. Any other text is returned unchanged.
std::string shipped_path(const std::string& name) {
  if (fs::exists(name)) return name;
  if (fs::is_regular_file(name + ".toml")) return name + ".toml";
  if (fs::path(name).is_absolute()) return name;
  for (const fs::path& folder : shipped_folders()) {
    for (const fs::path& path : {folder / name, folder / (name + ".toml")}) {
      if (fs::exists(path)) return seen_from_here(path);
    }
    if (name == "scenarios" && fs::is_directory(folder)) return seen_from_here(folder);
  }
  if (name == "-" || fs::path(name).has_extension()) return name;
  std::vector<std::string> names = shipped_names(), meant;
  if (names.empty()) return name;
  for (std::size_t i = names.size(); i-- > 0;) {
    std::string bare = fs::path(names[i]).filename().string();
    if (bare == name) meant.insert(meant.begin(), names[i]);
    names.push_back(std::move(bare));
  }
  if (meant.size() == 1) return shipped_path(meant[0]);
  const auto near = nearest(name, names);
  fail(Fix{!meant.empty() ? "say which one: " + text_of_list(meant, ", ")
           : near         ? fmt::format("did you mean '{}'?", *near)
                  : "give the path of a .toml file; shardlab test --list names what is shipped"},
       "{}: no such file, and {} of that name is shipped", name,
       meant.empty() ? "no scenario" : "more than one scenario");
}

}  // namespace

std::vector<std::string> scenario_files(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  const std::vector<std::string> names =
      given.empty() ? std::vector<std::string>{"scenarios"} : given;
  for (const std::string& name : names) {
    const std::vector<std::string> found = files_below(shipped_path(name), {".toml"}, "scenarios");
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

process::ControlChannel* channel_of(const RunArguments& arguments) {
  return arguments.backend.empty() ? nullptr : channel_of(arguments.backend);
}

ReplaySettings replay_settings_of(const RunArguments& arguments) {
  ReplaySettings settings{.most_bytes = most_bytes_of(arguments)};
  settings.schedule.kind = arguments.scheduler.value_or(SchedulerKind::kPool);
  if (seeded(arguments)) settings.schedule.seed = arguments.seed.value_or(0);
  return settings;
}

ScenarioOptions options_of(const RunArguments& arguments, const Scenario& scenario) {
  ScenarioOptions options;
  options.backend = arguments.backend.empty() ? scenario.backend : arguments.backend;
  options.checks = arguments.checks;
  options.device = arguments.device;
  options.planner = parse_planner(arguments.planner);
  options.workers = arguments.workers;
  options.sharing = arguments.sharing;
  options.transport = arguments.transport ? arguments.transport : scenario.transport;
  options.lazy_groups = arguments.lazy_groups;
  options.schedule.kind = arguments.scheduler.value_or(SchedulerKind::kPool);
  if (seeded(arguments)) options.schedule.seed = arguments.seed.value_or(0);
  options.memory = memory_limits(arguments);
  options.keep_elements = arguments.save.empty() ? arguments.keep_elements : kKeepAll;
  options.memory_timeline = arguments.memory_timeline || !arguments.html.empty();
  options.strict = arguments.strict;
  if (arguments.types == "strict") options.types = TypeMode::kStrict;
  if (arguments.types == "local") options.types = TypeMode::kLocal;
  if (arguments.strict && is_shape_only(options.backend)) {
    fail(ErrorKind::kUnsupported, Fix{"--backend threads, or leave --strict out"},
         "--strict: backend {} computes shapes only, so nothing is verified", options.backend);
  }
  const bool by_rank = arguments.log || arguments.common.json;
  if (by_rank && arguments.rank) {
    require_all_ranks(fmt::format("--rank {}", *arguments.rank), options.backend);
    options.reporting_rank = arguments.rank;
  } else if (arguments.log && arguments.length == ReportLength::kFull) {
    require_all_ranks("--full", options.backend);
    options.other_ranks = TraceDetail::kEvents;
  }
  const bool drawn = !arguments.perfetto.empty() && !is_shape_only(options.backend);
  if (drawn && channel_of(arguments) == nullptr) options.other_ranks = TraceDetail::kEvents;
  return options;
}

RunTextOptions text_options(const RunArguments& arguments) {
  // Launchers of processes give them a terminal, even if their own output is a file.
  const bool unsure = arguments.common.color == "auto" && channel_of(arguments) != nullptr;
  return {.color = unsure ? Color::kOff : arguments.common.stdout_color(),
          .length = arguments.length,
          .line = arguments.line,
          .why = arguments.why,
          .rank = arguments.rank};
}

namespace {

constexpr std::size_t kHang = 4;

// Characters that a terminal shows: without colours, "\x1b[32m".
std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size() - 1);
    } else if (starts_character(text[i])) {
      ++width;
    }
  }
  return width;
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

// Behind the word that begins at `word`, and behind the unit that follows a figure: "45.6 us".
std::size_t end_of_word(std::string_view line, std::size_t word) {
  const std::size_t end = std::min(line.find(' ', word), line.size());
  const bool has_unit =
      end + 1 < line.size() && end > word && is_digit(line[end - 1]) && is_letter(line[end + 1]);
  return has_unit ? std::min(line.find(' ', end + 1), line.size()) : end;
}

void append_line(std::string& out, std::string_view line, std::size_t width) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  if (width_of(line) <= width || indent + 2 * kHang >= width) {
    out += line;
    return;
  }
  std::size_t at = 0, used = 0;
  while (at < line.size()) {
    const std::size_t word = std::min(line.find_first_not_of(' ', at), line.size());
    const std::size_t end = end_of_word(line, word);
    const std::size_t own = width_of(line.substr(word, end - word));
    if (used > 0 && used + (word - at) + own > width) {
      out += '\n';
      out.append(indent + kHang, ' ');
      used = indent + kHang;
    } else {
      out.append(word - at, ' ');
      used += word - at;
    }
    out += line.substr(word, end - word);
    used += own;
    at = end;
  }
}

// Lines of more than `width` characters end at a blank and go on below, indented by four more than
// they began. Colours take no width. A figure and its unit stay together, and a part without blanks
// is whole.
std::string fold_lines(std::string_view text, std::size_t width) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    append_line(out, text.substr(0, end), width);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return out;
}

// The width of the terminal that is written to, or COLUMNS if it is set. Empty if it is not a
// terminal.
std::optional<std::size_t> terminal_width() {
  if (isatty(STDOUT_FILENO) == 0) return std::nullopt;
  const char* reported = std::getenv("COLUMNS");
  const int columns = reported != nullptr ? std::atoi(reported) : 0;
  if (columns > 0) return static_cast<std::size_t>(columns);
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

}  // namespace

RunOutput output_of(const ScenarioResult& result, const RunArguments& arguments) {
  if (result.run.reported_elsewhere) return {};
  RunOutput output;
  if (arguments.common.json) {
    output.out = run_json(result) + "\n";
    return output;
  }
  if (result.run.error && !result.judgement.failure_expected) {
    output.err = "error: " + result.run.error->text() + "\n";
    // A launcher ends the others soon after one process was killed, and a report takes its time.
    if (channel_of(arguments) != nullptr) std::fputs(std::exchange(output.err, "").c_str(), stderr);
  }
  RunTextOptions options = text_options(arguments);
  options.replay = arguments.replay;
  const auto width = terminal_width();
  if (width) options.width = std::clamp(*width, kLeastWidth, kMostWidth);
  output.out = arguments.log ? log_text(result.run) : run_text(result, options);
  if (arguments.types != "off" && !arguments.types.empty() && !result.run.error && !result.met()) {
    output.out += fmt::format("types: --types {} accepts every call, and does not see this\n",
                              arguments.types);
  }
  if (arguments.memory_timeline) {
    output.out += fmt::format("\nmemory of rank {} in the course of the program\n{}",
                              result.run.reporting_rank, memory_curve(result.run.memory_timeline));
  }
  if (width) output.out = fold_lines(output.out, *width);
  return output;
}

void write_file(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    fail(Fix{"give a path in a folder that is there and may be written to"}, "{} cannot be written",
         path);
  }
}

void print(const RunOutput& output) {
  std::fwrite(output.out.data(), 1, output.out.size(), stdout);
  std::fflush(stdout);
  std::fputs(output.err.c_str(), stderr);
}

}  // namespace shardlab
