// The label and the end stand on the left of their columns, figures on the right.
#include "sim/report/runs_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_text.h"
#include "sim/report/collective_sums.h"
#include "sim/report/run_text.h"

namespace shardlab {

std::string text_table(const std::vector<TableRow>& rows, std::size_t left,
                       std::string_view indent) {
  std::vector<std::size_t> widths;
  for (const TableRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const TableRow& row : rows) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i < left ? fmt::format("{:<{}}  ", row[i], widths[i])
                       : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

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
  return "\n" + text_table(rows, 2, "");
}

}  // namespace shardlab
