// run_text.h - a scenario run as people read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/judge/scenario_run.h"
#include "sim/report/show.h"

namespace shardlab {

/// A few lines; two screens, with what repeats folded; or every event.
enum class ReportLength : std::uint8_t { kSummary, kOverview, kFull };

/// Whether a run that is not as expected says how to run it again: always, or only where the user
/// has typed something else (one file, and it is a point of its matrix that failed).
enum class Replay : std::uint8_t { kShown, kWhereItAdds };

/// How a run is shown.
struct RunTextOptions {
  Color color = Color::kOff;
  ReportLength length = ReportLength::kOverview;
  int line = 0;  ///< of the source: what it did alone, every event; 0: all lines
  /// Whose decisions are explained: an op ("mm"), a source line, a value of the program, "all";
  /// empty: none.
  std::string why;
  Replay replay = Replay::kShown;
  std::optional<std::int64_t> rank;  ///< whose prints are shown; none: those of all ranks
};

/// Header, inputs, what ran in which order, what each line took, gave and sent, sums, verdict on
/// values, expectations. With `why` the lines that hold an explained decision, in place of all
/// this. An error that nobody expected is not part of it: it belongs to stderr. Ends with a line
/// that says whether everything is as expected.
std::string run_text(const ScenarioResult& result, const RunTextOptions& options);
/// The run's calls in order, each with why it is placed as it is, and what they moved.
std::string calls_text(const ScenarioResult& result, Color color);
/// What the ops warned of, and what `implicit = "warn"` asks for.
std::vector<std::string> warnings_of(const ScenarioResult& result);
/// "1 class", "3 classes": of ranks that do the same.
std::string classes_text(const Run& run);
/// One line for `shardlab test`: "ok   Megatron MLP   8 ranks  14 values, 6 collectives".
std::string run_line(const ScenarioResult& result, const RunTextOptions& options);

/// The sentence with its id: "... is missing [cause.missing-sum]".
std::string cause_text(const Cause& cause);
/// Why a run is not as expected, in one line: its error, else the first wrong call, wrong value
/// with its cause or unmet expectation, with what was expected. Empty where it is as expected.
std::string failure_text(const ScenarioResult& result);

/// The command that runs this very case again, for a shell. Under the scheduler `seeded`, --seed is
/// the schedule's.
std::string replay_command(const Run& run);

}  // namespace shardlab
