// shipped_scenarios.h - the scenarios of the repository, for properties that hold of all of them.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/scenario.h"

namespace shardlab {

struct ScenarioResult;

}  // namespace shardlab

namespace shardlab::test {

struct ShippedScenario {
  std::string name;  ///< "scenarios/redistribute/uneven_rows.toml rows=7"
  Scenario scenario;
};

/// All points of all files under scenarios/ whose values are computed, sorted by path. Read from
/// the working directory, which must be the repository's root.
std::vector<ShippedScenario> shipped_scenarios();

/// Whether a rank has received from any rank: values, and whether the program ends at all, depend
/// on the order of ranks by the meaning of the program.
bool takes_what_comes_first(const ScenarioResult& result);

}  // namespace shardlab::test
