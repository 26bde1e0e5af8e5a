// expected_mistake.h - `cause` and `line` of [expect]: a run that must be wrong, and its mistake.
// Private to the files that run scenarios.
#pragma once

#include <vector>

#include "sim/judge/expectations.h"
#include "sim/run/run.h"
#include "sim/verify/step_verdict.h"
#include "sim/verify/verify.h"

namespace shardlab {

/// The values, the calls, and the branch at which ranks separated, or an empty one.
struct Findings {
  const std::vector<ValueReport>& values;
  const StepVerdict& steps;
  const Cause& parted;
};

/// The line to look at first; 0: nothing is wrong, or it has no line.
std::int64_t line_of_mistake(const Run& run, const Findings& found);

/// Adds a report for each of the two keys, which the file has. True if both are met, so that the
/// failure is expected.
bool check_mistake(const Run& run, const Findings& found, std::vector<ExpectationReport>& reports);

}  // namespace shardlab
