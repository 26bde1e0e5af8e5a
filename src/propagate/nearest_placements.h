// nearest_placements.h - other placements of the inputs under which a refused call would run.
#pragma once

#include <functional>
#include <string>

#include "plan/plan.h"
#include "schema/op_strategy.h"

namespace shardlab {

/// Decides a call; throws the refusal.
using DecideFn = std::function<OutputSharding(const OpSchema& schema)>;

/// "self f32[8, 16] for 14.7 us, or other f32[8@x, 16] for 15.7 us": placements of one input, or of
/// all of them together, for which the call is decided, the cheapest two. The price is that of
/// moving there and of the moves of the call itself. Empty where none of those tried is decided:
/// one input changed along one mesh dim, one placed as another or whole, all whole. Tries no more
/// than a few dozen; pure.
std::string nearest_placements(const OpSchema& schema, const PlanOptions& options,
                               const DecideFn& decide);

}  // namespace shardlab
