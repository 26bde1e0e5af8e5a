// run_text.h - a scenario run for people.
#pragma once

#include <string>
#include <vector>

#include "sim/report/report_lines.h"

namespace shardlab {

/// A failed run begins with its place and reason. Header, inputs, lines in the order in which they
/// ran, operands, results and bytes of each line, sums, verdict on values, expectations. With `why`
/// only the lines that hold an explained decision. An unexpected error is not part of it: it
/// belongs to stderr. Ends with a line that says whether everything is as expected.
std::string run_text(const ScenarioResult& result, const RunTextOptions& options);
/// The run's calls in order, each with the reason of its placements, and its moves.
std::string calls_text(const ScenarioResult& result, Color color);
/// Warnings of the ops, and those of `implicit = "warn"`.
std::vector<std::string> warnings_of(const ScenarioResult& result);
/// "1 class", "3 classes": of ranks with the same calls.
std::string classes_text(const Run& run);
/// One line for `shardlab test`: "ok   Megatron MLP   8 ranks  14 values, 6 collectives".
std::string run_line(const ScenarioResult& result, const RunTextOptions& options);

/// The reason why a run is not as expected, in one line: its error, else the first wrong call,
/// wrong value with its cause or unmet expectation, with the expected value. Of one that is as
/// expected, the first value that differs; empty if there is none.
std::string failure_text(const ScenarioResult& result);

/// The command that runs this very case again, for a shell. Under the scheduler `seeded`, --seed is
/// the schedule's.
std::string replay_command(const Run& run);

}  // namespace shardlab
