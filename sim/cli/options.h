// options.h - options that several commands have.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

#include "sim/cli/commands.h"

namespace shardlab {

/// A whole number, `lowest` or more.
CLI::Validator whole_number_from(std::int64_t lowest);
/// --color and --json. `common` outlives the command.
void add_common(CLI::App* command, CommonArguments& common);

}  // namespace shardlab
