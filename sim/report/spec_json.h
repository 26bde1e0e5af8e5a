// spec_json.h - decisions for machines.
#pragma once

#include <string>

#include "propagate/propagator.h"

namespace shardlab {

std::string decision_json(const OpSchema& schema, const DecisionRecord& record);

}  // namespace shardlab
