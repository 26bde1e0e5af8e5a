// `shardlab shrink`: the scenario is written to a file or to stdout, what is said of it to the
// other one.
#include <unistd.h>

#include "sim/cli/open_recording.h"
#include "sim/cli/run_arguments.h"
#include "sim/edit/shrink.h"
#include "sim/files/json_value.h"

namespace shardlab {

namespace {

std::string summary_of(const Shrunk& shrunk, bool of_graph) {
  std::string text = fmt::format("{} lines of {}: {}", shrunk.lines_after, shrunk.lines_before,
                                 to_string(shrunk.failure));
  if (!shrunk.failure.lines.empty()) {
    text += fmt::format(" in line {}", shrunk.failure.lines.front());
  }
  if (of_graph && !shrunk.comment.empty()) text += ", made from " + shrunk.comment;
  text += fmt::format("\n  {} runs, {:.1f} s", shrunk.runs, shrunk.seconds);
  if (shrunk.out_of_time) text += fmt::format("; there is more to try: {}", kMoreBudget);
  return text + "\n";
}

nlohmann::json json_of(const Shrunk& shrunk) {
  nlohmann::json failure = {{"text", to_string(shrunk.failure)}, {"why", shrunk.failure.text}};
  if (!shrunk.failure.cause.empty()) failure["cause_id"] = shrunk.failure.cause;
  if (!shrunk.failure.lines.empty()) failure["line"] = shrunk.failure.lines.front();
  return {{"failure", failure},
          {"lines", shrunk.lines_after},
          {"lines_before", shrunk.lines_before},
          {"out_of_time", shrunk.out_of_time},
          {"runs", shrunk.runs},
          {"scenario", shrunk.text}};
}

}  // namespace

int shrink_command(const ShrinkArguments& arguments) {
  const std::string path = scenario_files({arguments.file}).front();
  const Scenario scenario = failing_point(path, arguments.run);
  const bool shows = isatty(STDERR_FILENO) != 0;
  ShrinkOptions options{.run = options_of(arguments.run, scenario), .most_time = arguments.budget};
  if (shows) {
    options.progress = [](std::int64_t runs, std::size_t lines) {
      print({.err = fmt::format("\r{} runs, {} lines of the program left\x1b[K", runs, lines)});
    };
  }
  const Shrunk shrunk = shrink(scenario, options);
  const bool of_graph = path.ends_with(".graph");
  if (shows) print({.err = "\r\x1b[K"});
  if (!arguments.out.empty()) write_file(arguments.out, shrunk.text);
  if (arguments.run.common.json) {
    print({.out = json_line(json_of(shrunk)) + "\n"});
  } else if (arguments.out.empty()) {
    print({.out = shrunk.text, .err = summary_of(shrunk, of_graph)});
  } else {
    print({.out = summary_of(shrunk, of_graph)});
  }
  return kFine;
}

}  // namespace shardlab
