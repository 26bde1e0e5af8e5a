// expectations.h - the lines of a scenario's [expect], compared with the run.
#pragma once

#include <string>
#include <vector>

#include "sim/log/trace.h"
#include "sim/run/recording.h"
#include "sim/run/run.h"

namespace shardlab {

class Recorders;

/// One key of [expect].
struct ExpectationReport {
  std::string what;  ///< "y", "collectives.all_reduce", "bytes"
  bool met = false;
  std::string text;  ///< "f32[8@dp, 16]"; when unmet "expected ..., got ..."
  Where where;
  bool of_failure = false;  ///< "cause" and "line": of a run that must be wrong
};

/// A count with its bound; `more` says why it is not met.
ExpectationReport check_count(std::string what, const Bound& bound, double found,
                              const std::string& more = "");

/// Types, collectives, bytes and memory. `recordings` are by global rank. In the order of the file.
/// Reads the ranks' recordings once all of them have ended; a line that cannot be decided, such as
/// the type of a name that no rank has, counts as not met.
std::vector<ExpectationReport> check_expectations(const Run& run,
                                                  const std::vector<Recording>& recordings);

/// Adds a report for each of `graph`, `graph_breaks` and `graphs` that the scenario asks for. A
/// file that does not exist, or has no graphs, is not met.
void check_graphs(const Run& run, Recorders& recorders, std::vector<ExpectationReport>& reports);

}  // namespace shardlab
