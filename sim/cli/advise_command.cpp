// `shardlab advise`: each edit with what the program costs before and after it.
#include <unistd.h>

#include "base/text.h"
#include "sim/cli/open_recording.h"
#include "sim/cli/run_arguments.h"
#include "sim/edit/advice.h"
#include "sim/files/json_value.h"
#include "sim/recording/recording_file.h"
#include "sim/report/paint.h"

namespace shardlab {

namespace {

std::string time_text(double us) {
  return us < 1000 ? fmt::format("{:.4g} us", us) : fmt::format("{:.4g} ms", us / 1000);
}

// The text between two marks in a line. Empty where they are not there.
std::string between(std::string_view line, std::string_view begin, std::string_view end) {
  const std::size_t at = line.find(begin);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = line.substr(at + begin.size());
  return std::string(rest.substr(0, rest.find(end)));
}

// The comment of the call whose result a line moves, "blocks.0.wo  train.py:12": its own, or that
// of the line that gives the name its value.
std::string origin_of(const std::string& line, std::string_view code) {
  constexpr std::string_view kComment = "    # ", kEnd = "\n";
  const std::string own = between(line, kComment, kEnd);
  const std::string name = line.substr(0, line.find(" = "));
  const std::size_t at = own.empty() ? code.find("\n" + name + " = ") : std::string_view::npos;
  return at == std::string_view::npos
             ? own
             : between(code.substr(at + 1, code.find('\n', at + 1) - at - 1), kComment, kEnd);
}

// The place of a change: a recording's program has the user's module, file and line in comments.
std::string place_text(const Advice& advice, const std::string& file, const Scenario& scenario) {
  if (advice.changes.empty()) return advice.where;
  const std::string line = fmt::format("line {}", advice.changes.front().line);
  if (!is_recording_file(file)) return line;
  const std::string generated = line + " of the program that `run --toml` prints";
  for (const ChangedLines& change : advice.changes) {
    for (const std::string& before : change.before) {
      const std::string origin = origin_of(before, scenario.program->source->text());
      if (!origin.empty()) return fmt::format("{}: {}", origin, generated);
    }
  }
  return generated;
}

std::string advice_text(const Advised& advised, const std::string& file, const Scenario& scenario,
                        Color color) {
  const Cost& before = advised.before;
  std::string out =
      fmt::format("{}: {}, {} sent by a rank, {} predicted\n", paint(file, Ink::kTitle, color),
                  counted(before.collectives, "collective"), bytes_text(before.sent_bytes),
                  time_text(before.predicted_us));
  for (const Advice& advice : advised.all) {
    const Cost& after = advice.after;
    out += fmt::format("\n{}, {}: {} -> {}, {} -> {} sent, {} -> {}\n", advice.what,
                       place_text(advice, file, scenario), before.collectives,
                       counted(after.collectives, "collective"), bytes_text(before.sent_bytes),
                       bytes_text(after.sent_bytes), time_text(before.predicted_us),
                       time_text(after.predicted_us));
    if (after.peak_bytes > before.peak_bytes) {
      out += fmt::format("  a rank holds more at its peak: {} -> {}\n",
                         bytes_text(static_cast<double>(before.peak_bytes)),
                         bytes_text(static_cast<double>(after.peak_bytes)));
    }
    out += changes_text(advice.changes, color);
  }
  if (advised.all.empty()) {
    out += fmt::format("\n{} edits were tried, and none is cheaper and right\n", advised.tried);
  }
  if (advised.out_of_time) out += fmt::format("there was more to try: {}\n", kMoreBudget);
  return out;
}

nlohmann::json json_of(const Cost& cost) {
  return {{"collectives", cost.collectives},
          {"sent_bytes", cost.sent_bytes},
          {"predicted_us", cost.predicted_us},
          {"peak_bytes", cost.peak_bytes}};
}

nlohmann::json json_of(const Advised& advised, const std::string& file) {
  nlohmann::json out = {{"file", file},
                        {"ok", advised.failure.empty()},
                        {"before", json_of(advised.before)},
                        {"tried", advised.tried},
                        {"out_of_time", advised.out_of_time},
                        {"advice", nlohmann::json::array()}};
  if (!advised.failure.empty()) out["failure"] = advised.failure;
  for (const Advice& advice : advised.all) {
    nlohmann::json changes = nlohmann::json::array();
    for (const auto& [line, before, after] : advice.changes) {
      changes.push_back({{"line", line}, {"before", before}, {"after", after}});
    }
    out["advice"].push_back({{"what", advice.what},
                             {"file", advice.file},
                             {"changes", changes},
                             {"where", advice.where},
                             {"after", json_of(advice.after)}});
  }
  return out;
}

}  // namespace

int advise_command(const AdviseArguments& arguments) {
  const std::string path = scenario_files({arguments.file}).front();
  const OpenedRecording opened = open_any(path, arguments.run);
  const Scenario scenario = opened.file.first();
  const bool shows = isatty(STDERR_FILENO) != 0;
  AdviceOptions options{.run = options_of(arguments.run, scenario),
                        .others = other_layouts(opened, arguments.run),
                        .most_time = arguments.budget};
  if (shows) {
    options.progress = [](std::int64_t tried, std::int64_t all) {
      print({.err = fmt::format("\r{} of {} edits tried\x1b[K", tried, all)});
    };
  }
  const Advised advised = advise(scenario, options);
  if (shows) print({.err = "\r\x1b[K"});
  if (arguments.run.common.json) {
    print({.out = json_line(json_of(advised, path)) + "\n"});
  } else if (advised.failure.empty()) {
    print_text(advice_text(advised, path, scenario, arguments.run.common.stdout_color()));
  } else {
    print_text(fmt::format("{}: {}; what is wrong has to be mended first: shardlab blame {}\n",
                           path, advised.failure, path));
  }
  return advised.failure.empty() ? kFine : kFailed;
}

}  // namespace shardlab
