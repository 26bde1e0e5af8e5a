// scenario_parts.h - the tables of a scenario file, one function each.
// Private to scenario_file.cpp.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/scenario/scenario.h"
#include "sim/scenario/scenario_file.h"
#include "sim/scenario/toml_tree.h"

namespace shardlab {

/// Null when `settings` has no such key.
const Setting* find_setting(const std::vector<Setting>& settings, std::string_view key);

/// [mesh] and `world`, with their settings applied. All fail with ScenarioError.
ScenarioMesh read_mesh(const TomlSection& root, const std::vector<Setting>& settings);
std::int64_t read_world(const TomlSection& root, const ScenarioMesh& mesh,
                        const std::vector<Setting>& settings);

/// [params], with their settings applied, in the order of the file.
std::vector<std::pair<std::string, Literal>> read_params(const TomlSection& root,
                                                         const std::vector<Setting>& settings);

/// [inputs], types and arguments evaluated.
std::vector<ScenarioInput> read_inputs(const TomlSection& root, const Environment& environment);

/// `values`: inputs and the names that the program binds.
Expectation read_expectation(const TomlSection& root, const Environment& environment,
                             const std::vector<std::string>& values);

/// Every [[rule]].
std::vector<ScenarioRule> read_rules(const TomlSection& root);

/// [topology]: links of mesh dims that the file names.
std::vector<TopologyDim> read_topology(const TomlSection& root, const ScenarioMesh& mesh,
                                       const std::vector<Setting>& settings);

/// The collectives that [weights] may weigh.
inline constexpr std::array<std::string_view, 4> kWeighted = {"all_to_all", "all_gather",
                                                              "reduce_scatter", "all_reduce"};
/// [weights]: the costs of collectives that the planner graph adds up; none: their times.
std::optional<StepWeights> read_weights(const TomlSection& root,
                                        const std::vector<Setting>& settings);

}  // namespace shardlab
