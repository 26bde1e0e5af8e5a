// recorded_promise.h - the promise of a recording of several ranks, and its run on a fabric.
#pragma once

#include "sim/cli/commands.h"
#include "sim/judge/promise_run.h"
#include "sim/recording/recorded_program.h"

namespace shardlab {

/// The promise of a recording of several ranks. Conditions that fail have the lines of its script.
Promise promise_of(const RecordedProgram& program, const PromiseOptions& options);

/// `run --transport` of such a recording: its replay, and whether its ranks end on the fabric.
int run_recorded(const RecordedProgram& program, const RunArguments& arguments);

}  // namespace shardlab
