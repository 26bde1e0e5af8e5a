// report_lines.h - the options of a report on a run, and its lines.
#pragma once

#include <fmt/core.h>
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sim/judge/scenario_run.h"
#include "sim/report/overview_text.h"

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

/// The text of a part of a report, line by line. `result` and `options` outlive it.
class ReportLines {
 public:
  ReportLines(const ScenarioResult& result, const RunTextOptions& options)
      : result_(result), run_(result.run), judgement_(result.judgement), options_(options) {}

 protected:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...);
    out_ += '\n';
  }
  std::string ink(std::string_view text, Ink ink) const { return paint(text, ink, options_.color); }
  bool whole() const { return options_.length == ReportLength::kFull; }

  const ScenarioResult& result_;
  const Run& run_;
  const ScenarioJudgement& judgement_;
  const RunTextOptions& options_;
  std::string out_;
};

}  // namespace shardlab
