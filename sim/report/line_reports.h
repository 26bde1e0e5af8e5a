// line_reports.h - a run by lines of the source: operands and results of each line's ops, their
// bytes, and the verdicts on its values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/judge/scenario_run.h"
#include "sim/report/collective_origins.h"
#include "sim/report/line_visits.h"

namespace shardlab {

/// Collectives of one kind, over one group, with one origin.
struct LineMove {
  Pass pass = Pass::kForward;
  CollectiveKind kind = CollectiveKind::kBarrier;
  std::string group;
  std::int64_t ranks = 0;
  CollectiveOrigin origin;
  bool completed = true;  ///< false: the rank entered it, and the run ended there
  std::int64_t count = 0;
  double sent_bytes = 0;    ///< by the reporting rank
  double predicted_us = 0;  ///< one after the other
};

/// One line of the source.
struct LineReport {
  int line = 0;
  std::int64_t forward = 0, backward = 0;  ///< visits
  std::vector<std::string> ops;      ///< of the first visit, each once; "local mm" on plain tensors
  std::vector<std::string> inputs;   ///< types that its first visit takes from elsewhere, each once
  std::vector<std::string> outputs;  ///< types of its named values, or of its first visit's last op
  std::int64_t kinds = 0;            ///< number of different passes, in the pass of its first visit
  std::vector<LineMove> moves;       ///< forward first
  /// Sums over its ops on the reporting rank (op_work.h): arithmetic, and bytes read and written.
  double forward_flops = 0, backward_flops = 0, bytes = 0;
  std::vector<const ValueReport*> values;  ///< named by it; no gradients
};

/// Sorted by line. `result` outlives them.
std::vector<LineReport> line_reports(const ScenarioResult& result,
                                     const std::vector<LineVisit>& visits);

/// The line of a value's statement in the file of the program; 0: it has none there.
int line_of(const Run& run, const ValueReport& value);
/// A line of the source without its indent.
std::string source_line(const Run& run, int number);

}  // namespace shardlab
