// failing_point.h - the scenario that is meant where a file has a matrix: the first that fails.
#pragma once

#include <string>

#include "sim/cli/commands.h"
#include "sim/scenario/scenario_file.h"

namespace shardlab {

/// A scenario, or a graph in place of one.
ScenarioFile open_scenario(const std::string& path, const RunArguments& arguments);
/// The only point of a file, whether it fails or not.
///   fails  Value: nothing is wrong at any of several
Scenario failing_point(const std::string& path, const RunArguments& arguments);
/// The first point of a file.
Scenario first_point(const std::string& path, const RunArguments& arguments);

}  // namespace shardlab
