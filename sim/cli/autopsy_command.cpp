// `shardlab autopsy`: reads the dumps of a job that hangs, and says who parted.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "dispatch/all_ops.h"
#include "sim/autopsy/known_program.h"
#include "sim/cli/open_recording.h"
#include "sim/cli/run_arguments.h"
#include "sim/files/json_value.h"
#include "sim/judge/posted_steps.h"
#include "sim/recording/recording_file.h"
#include "sim/replay/played_calls.h"
#include "sim/run/program_run.h"
#include "sim/run/run.h"

namespace shardlab {

namespace {

// "layers.0.wq  model.py:37": the comment of a re-mesh at the line, or before it; else the line.
std::string place_in(const Scenario& scenario, const SourcePosition& at, bool recorded) {
  constexpr std::string_view kComment = "    # ";
  for (std::int32_t line = at.line; line > 0 && recorded; --line) {
    const std::string_view text = scenario.program->source->line(line);
    const std::size_t comment = text.rfind(kComment);
    if (comment != std::string_view::npos) {
      return std::string(text.substr(comment + kComment.size()));
    }
  }
  return fmt::format("{}:{}", at.file == nullptr ? "" : at.file, at.line);
}

// Why the ranks hang, in this run or on other fabrics; empty: they do not.
std::string hang_of(const FabricLog& log, std::int64_t ranks,
                    const std::optional<Verdict>& verdict) {
  if (verdict) return to_error(*verdict).summary();
  Promise promise = promise_of(log, ranks);
  if (!promise.open.empty()) return "";
  promise.asked = kUsualTransports;
  promise.run(false);
  return promise.hangs() ? promise.headline() : "";
}

// Empty if the recording is not as PyTorch had it, which was printed.
std::optional<KnownProgram> known_program(const AutopsyArguments& arguments, int& code) {
  const std::string& path = arguments.recording;
  KnownProgram known{.file = path, .log = {}, .places = {}, .hang = {}};
  const bool recorded = is_recording_file(path);
  if (recorded && arguments.run.mesh.empty()) {
    const RecordedProgram program = read_recording(path);
    PlayedCalls played = played_calls(program);
    known.log = std::move(played.log);
    known.places = std::move(played.places);
    known.hang = hang_of(known.log, static_cast<std::int64_t>(program.ranks), played.verdict);
    return known;
  }
  std::optional<ScenarioFile> file;
  if (recorded) {
    auto opened = open_recording(path, arguments.run, code);
    if (!opened) return std::nullopt;
    file = std::move(opened->file);
  } else {
    file = ScenarioFile::open(path, settings_of(arguments.run));
  }
  const Scenario scenario = file->first();
  ScenarioOptions options = options_of(arguments.run, scenario);
  options.log = &known.log;
  Run run = prepare_run(scenario, all_ops(), options);
  ProgramRun program;
  run_on_ranks(run, nullptr, program);
  for (const FabricLog::Call& call : known.log.calls) {
    known.places.push_back(place_in(scenario, call.position, recorded));
  }
  known.hang = hang_of(known.log, scenario.world, run.verdict);
  return known;
}

}  // namespace

int autopsy_command(const AutopsyArguments& arguments) {
  FlightWords words;
  const std::size_t workers = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::string> notes;
  std::vector<FlightDump> dumps = read_flight_dumps(arguments.paths, words, workers, notes);
  if (dumps.empty()) {
    fail(Fix{"give the folder or files that torch's flight recorder wrote"},
         "autopsy: there is no dump in {}", arguments.paths.front());
  }
  int code = kFine;
  std::optional<KnownProgram> known;
  if (!arguments.recording.empty()) known = known_program(arguments, code);
  if (code != kFine) return code;
  Autopsy found = autopsy_of(known ? dumps : std::move(dumps), words);
  if (known) join(found, dumps, words, *known);
  found.notes.insert(found.notes.end(), notes.begin(), notes.end());
  const bool json = arguments.run.common.json;
  print_text(json ? json_line(found.json(words)) + "\n" : found.text(words));
  return found.kind == AutopsyKind::kHealthy ? kFine : kFailed;
}

}  // namespace shardlab
