// run_listing.h - the events of a run, below the lines of its program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/report/collective_origins.h"
#include "sim/report/line_visits.h"
#include "sim/report/report_lines.h"

namespace shardlab {

class RunListing : ReportLines {
 public:
  RunListing(const ScenarioResult& result, const RunTextOptions& options);

  /// Forward, then backward, whole, with the values between the events. Once.
  std::string passes();
  /// The visits that hold an event which `wanted` marks, each kind once, with times and origins of
  /// its collectives.
  std::string visits(const std::vector<bool>& wanted);
  /// The calls alone, each explained.
  std::string calls();
  /// "       = y  f32[8@dp, 16]  envelope".
  std::string value_line(const ValueReport& value) const;
  /// One flag for each event: whether `options.why` asks about it.
  const std::vector<bool>& asked() const { return asked_; }

 private:
  void title(Pass pass) {
    line("\n{}", ink(pass == Pass::kForward ? "forward" : "backward", Ink::kTitle));
  }
  void pass(Pass wanted);
  bool value_is_next();
  void source_header(int number, std::int64_t times = 1);
  void values_before(std::size_t index, int& current);
  void show(std::size_t index);
  void redistribution(const TraceEvent& event, const std::string& indent);
  void collective(std::size_t index, const std::string& indent);

  const std::vector<bool> asked_;
  std::vector<CollectiveOrigin> origins_;  ///< empty: not shown
  std::size_t name_width_ = 0, type_width_ = 0;
  std::size_t next_value_ = 0;
  std::size_t margin_ = 9;  ///< of an op that is part of no other
};

/// The width of a column with this text of all rows. A longer text shifts only its own row.
template <typename Row, typename Text>
std::size_t column_width(const std::vector<Row>& rows, Text text, std::size_t least) {
  constexpr std::size_t kWidestColumn = 60;
  std::size_t width = least;
  for (const Row& row : rows) width = std::max(width, std::invoke(text, row).size());
  return std::min(width, kWidestColumn);
}

/// "x", "x at the end".
std::string shown_name(const ValueReport& value);

}  // namespace shardlab
