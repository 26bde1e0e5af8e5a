// nearest_placements.h - where the inputs of a refused call could lie instead.
#pragma once

#include <functional>
#include <string>

#include "plan/plan.h"
#include "schema/op_row.h"

namespace shardlab {

/// Decides a call; throws what refuses it.
using DecideFn = std::function<OutputSharding(const OpSchema& schema)>;

/// "self f32[8, 16] for 14.7 us, or other f32[8@x, 16] for 15.7 us": what one input, or all of them
/// together, would have to be for the call to be decided, the cheapest two. The price is that of
/// moving there and of what the call itself then moves. Empty where none of those looked at is
/// decided: one input changed along one mesh dim, one that lies as another or whole, all whole.
/// Looks at no more than a few dozen; pure.
std::string nearest_placements(const OpSchema& schema, const PlanOptions& options,
                               const DecideFn& decide);

}  // namespace shardlab
