// runs_table.h - several runs side by side.
#pragma once

#include <string>
#include <vector>

#include "sim/judge/scenario_run.h"
#include "sim/report/text_table.h"

namespace shardlab {

/// One line a run, such as a point of [matrix] or a plan: what the reporting rank's collectives
/// send, their predicted time, the most that a rank holds, and how the run ended. The label of
/// the first column is the caller's.
class RunsTable {
 public:
  explicit RunsTable(std::string what) : rows_{{std::move(what)}} {}
  void add(const std::string& label, const ScenarioResult& result);
  /// A run that could not be made, with the reason.
  void add(const std::string& label, const std::string& reason);
  /// An empty line and the table; an empty text for fewer than two runs.
  std::string text() const;

 private:
  std::vector<TableRow> rows_;
};

}  // namespace shardlab
