// spec_json.h - decisions for machines.
#pragma once

#include <string>

#include "propagate/propagator.h"

namespace shardlab {

struct ScenarioResult;

std::string decision_json(const OpSchema& schema, const DecisionRecord& record);
/// All decisions of a run, with their moves, as those that make up the op `name`.
std::string calls_json(const ScenarioResult& result, const std::string& name);

}  // namespace shardlab
