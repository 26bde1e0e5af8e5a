// run_arguments.h - common arguments of `run` and `test` as options, files and output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/cli/commands.h"
#include "sim/judge/scenario_run.h"
#include "sim/replay/recorded_world.h"
#include "sim/report/run_text.h"
#include "sim/scenario/scenario_file.h"

namespace shardlab {

namespace process {
class ControlChannel;
}

/// --seed, unless it is that of the order of ranks.
std::optional<std::uint64_t> seed_of_inputs(const RunArguments& arguments);
/// --memory, or the machine's.
std::int64_t most_bytes_of(const RunArguments& arguments);
/// For a replay of a recording.
ReplaySettings replay_settings_of(const RunArguments& arguments);
/// Values in place of the file's. --seed is among them unless it is the schedule's.
std::vector<Setting> settings_of(const RunArguments& arguments);
/// The files, "-" for standard input, and all .toml files below the folders. A name that is no path
/// may be that of a scenario or a folder that is shipped: "models/megatron_mlp", "models"; without
/// a name, and for "scenarios", all that are shipped.
///   fails  Value: a folder without scenarios; a word that is no such name, with the nearest one
std::vector<std::string> scenario_files(const std::vector<std::string>& names);
/// The job that the ranks are processes of; null if they are not.
process::ControlChannel* channel_of(const RunArguments& arguments);
/// The backend is the scenario's if the user gave none.
ScenarioOptions options_of(const RunArguments& arguments, const Scenario& scenario);
RunTextOptions text_options(const RunArguments& arguments);

/// The output of one run. Results are written to stdout, an unexpected error to stderr.
struct RunOutput {
  std::string out;
  std::string err;
};
/// If ranks are processes the error is written at once, and is not in the output.
RunOutput output_of(const ScenarioResult& result, const RunArguments& arguments);
void print(const RunOutput& output);
/// Fails with Value if the path can't be written.
void write_file(const std::string& path, std::string_view text);

}  // namespace shardlab
