// The label and the end stand on the left of their columns, figures on the right.
#include "sim/report/runs_table.h"

#include "base/text.h"
#include "sim/report/collective_sums.h"
#include "sim/report/run_text.h"

namespace shardlab {

void RunsTable::add(const std::string& label, const ScenarioResult& result) {
  const Cost cost = cost_of(result.run);
  const std::string failure = failure_text(result);
  rows_.push_back({label, result.met() ? failure.empty() ? "ok" : "differs" : "FAILED",
                   std::to_string(cost.collectives), bytes_text(cost.sent_bytes),
                   time_text(cost.predicted_us), bytes_text(static_cast<double>(cost.peak_bytes))});
}

void RunsTable::add(const std::string& label, const std::string& reason) {
  rows_.push_back({label, reason});
}

std::string RunsTable::text() const {
  if (rows_.size() < 3) return "";
  std::vector<TableRow> rows = rows_;
  for (const char* title : {"", "collectives", "sent", "predicted", "peak"})
    rows.front().emplace_back(title);
  return "\n" + text_table(rows, "<<>", "");
}

}  // namespace shardlab
