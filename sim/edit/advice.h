// advice.h - cheaper programs with the same values: edits that spare moves and collectives, each
// proven by a run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/edit/program_lines.h"
#include "sim/judge/scenario_run.h"
#include "sim/recording/advice.h"
#include "sim/report/collective_sums.h"

namespace shardlab {

struct Advice {
  std::string what;                   ///< "one redistribute(tp=R)"
  std::string file;                   ///< that the lines are in
  std::vector<ChangedLines> changes;  ///< parts of lines where the program is a part of a line
  std::string where = {};             ///< of a recording's layout, in place of changes: its line
  Cost after;
};

/// Layouts of a recorded program that may be cheaper, and the program with some of them.
struct OtherLayouts {
  std::vector<OtherPlacing> layouts;
  std::function<Scenario(const std::vector<std::string>& placings)> with;
};

struct AdviceOptions {
  ScenarioOptions run;
  OtherLayouts others;       ///< none: the scenario is no recording
  double most_time = 10;     ///< in runs of the scenario
  double least_seconds = 5;  ///< time there is in any case
  /// Told before each edit: how many were tried, and how many there are.
  std::function<void(std::int64_t, std::int64_t)> progress;
};

struct Advised {
  std::string failure;  ///< the run is not as expected: nothing was tried
  Cost before;
  std::vector<Advice> all;  ///< the cheapest program first
  std::int64_t tried = 0;   ///< edits
  bool out_of_time = false;
};

/// Expected counts, bytes and memory are no claim on what is cheaper; all else that the scenario
/// expects still holds with each edit.
Advised advise(const Scenario& scenario, const AdviceOptions& options);

}  // namespace shardlab
