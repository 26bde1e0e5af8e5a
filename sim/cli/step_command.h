// step_command.h - `shardlab run` of a recorded training step.
#pragma once

#include <optional>
#include <string>

#include "sim/cli/commands.h"
#include "sim/scenario/scenario_file.h"

namespace shardlab {

/// The recording as a scenario on the given mesh, or on one rank, after it was compared with
/// PyTorch on one; prints the result of the comparison. None: --toml has printed the scenario, or
/// the self-test fails, and `code` is the exit code.
std::optional<ScenarioFile> open_step(const std::string& path, const RunArguments& arguments,
                                      int& code);

/// Refuses options of recordings where a file is a scenario.
void refuse_step_options(const std::string& path, const RunArguments& arguments);

}  // namespace shardlab
