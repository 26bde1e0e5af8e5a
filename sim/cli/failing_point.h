// failing_point.h - the scenario that is meant where a file has a matrix: the first that fails.
#pragma once

#include <string>

#include "sim/cli/open_recording.h"

namespace shardlab {

/// A scenario, or a graph in place of one.
ScenarioFile open_scenario(const std::string& path, const RunArguments& arguments);
/// The same, or a recording.
///   fails  Value: a recording whose program does not give PyTorch's values on one device
OpenedRecording open_any(const std::string& path, const RunArguments& arguments);
/// The only point of a file, whether it fails or not.
///   fails  Value: nothing is wrong at any of several
Scenario failing_point(const std::string& path, const RunArguments& arguments);

}  // namespace shardlab
