// graph_expectations.h - the lines of [expect] about the graphs of a program. Private to the files
// that run scenarios.
#pragma once

#include <vector>

#include "sim/judge/expectations.h"
#include "sim/run/run.h"

namespace shardlab {

class Recorders;

/// Adds a report for each of `graph`, `graph_breaks` and `graphs` that the scenario asks for. A
/// file that does not exist, or has no graphs, is not met.
void check_graphs(const Run& run, Recorders& recorders, std::vector<ExpectationReport>& reports);

}  // namespace shardlab
