// blame_runs.h - the first value in which two runs that should agree do not.
#pragma once

#include "sim/cli/commands.h"

namespace shardlab {

/// Each of `arguments.file` and `arguments.other` is the output of `run --json --values all`, or a
/// scenario, which is run. Returns the exit code.
///   fails  Value: a file of several runs, or one that neither wrote
int blame_runs(const BlameArguments& arguments);

}  // namespace shardlab
