// run_text.h - a scenario run for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/judge/scenario_run.h"
#include "sim/report/overview_text.h"
#include "sim/report/show.h"

namespace shardlab {

/// A few lines; two screens, with repeats folded; or every event.
enum class ReportLength : std::uint8_t { kSummary, kOverview, kFull };

/// True when a run that is not as expected prints the command that repeats it: always, or only if
/// the user has typed something else (one file, and it is a point of its matrix that failed).
enum class Replay : std::uint8_t { kShown, kWhereItAdds };

/// Options for showing a run.
struct RunTextOptions {
  Color color = Color::kOff;
  ReportLength length = ReportLength::kOverview;
  int line = 0;  ///< of the source: its events alone, all of them; 0: all lines
  /// Names whose decisions are explained: an op ("mm"), a source line, a value of the program,
  /// "all"; empty: none.
  std::string why;
  Replay replay = Replay::kShown;
  std::optional<std::int64_t> rank;  ///< its prints are shown; none: those of all ranks
  std::size_t width = kReportWidth;
};

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

/// The sentence with its id: "... is missing [cause.missing-sum]".
std::string cause_text(const Cause& cause);
/// The reason why a run is not as expected, in one line: its error, else the first wrong call,
/// wrong value with its cause or unmet expectation, with the expected value. Of one that is as
/// expected, the first value that differs; empty if there is none.
std::string failure_text(const ScenarioResult& result);

/// The command that runs this very case again, for a shell. Under the scheduler `seeded`, --seed is
/// the schedule's.
std::string replay_command(const Run& run);

}  // namespace shardlab
