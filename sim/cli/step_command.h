// step_command.h - `shardlab run` of a recorded training step.
#pragma once

#include <optional>
#include <string>

#include "sim/cli/commands.h"
#include "sim/scenario/scenario_file.h"

namespace shardlab {

/// The recording as a scenario on the mesh that is asked for, or on one rank, after it was held
/// against PyTorch on one; what that came to is printed. None: --toml has printed the scenario, or
/// the self-test fails, with `code` what to end with.
std::optional<ScenarioFile> open_step(const std::string& path, const RunArguments& arguments,
                                      int& code);

/// Refuses options of recordings where a file is a scenario.
void refuse_step_options(const std::string& path, const RunArguments& arguments);

}  // namespace shardlab
