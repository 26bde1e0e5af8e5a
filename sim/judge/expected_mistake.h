// expected_mistake.h - `cause` and `line` of [expect]: a run that must be wrong, and its mistake.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/judge/expectations.h"
#include "sim/run/run.h"
#include "sim/verify/step_verdict.h"
#include "sim/verify/verify.h"

namespace shardlab {

/// 12 of "rank 0, step 2, mlp.toml:12:3" and of "mlp.toml:12".
std::optional<std::int64_t> line_in(std::string_view place);

/// The values, the calls, and the branch at which ranks separated, or an empty one.
struct Findings {
  const std::vector<ValueReport>& values;
  const StepVerdict& steps;
  const Cause& parted;
};

/// The first mistake found. Points into the findings.
struct Mistake {
  std::string_view cause;           ///< an id; empty: no cause was searched
  std::vector<std::int64_t> lines;  ///< any of them is the one to look at first
  std::string text;
  const ValueReport* value = nullptr;  ///< null: no value is wrong
};
/// Nothing where nothing is wrong.
std::optional<Mistake> mistake_of(const Run& run, const Findings& found);

/// Adds a report for each of the two keys, which the file has. True if both are met, so that the
/// failure is expected.
bool check_mistake(const Run& run, const Findings& found, std::vector<ExpectationReport>& reports);

}  // namespace shardlab
