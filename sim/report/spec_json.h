// spec_json.h - plans and decisions for machines.
#pragma once

#include <string>

#include "plan/plan.h"
#include "propagate/propagator.h"

namespace shardlab {

/// Every planner's answer for one pair.
std::string plans_json(const DTensorSpec& source, const DTensorSpec& target);
std::string decision_json(const OpSchema& schema, const DecisionRecord& record);

}  // namespace shardlab
