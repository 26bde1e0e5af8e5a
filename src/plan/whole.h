// whole.h - plans that always keep the data: through whole tensor dims.
#pragma once

#include "plan/plan.h"

namespace shardlab {

/// False when executing the plan would mix up elements: a step undoes a cut that is not the last
/// one of its tensor dim, the cuts end in another order than the target's, or the order that
/// strided shards mean holds other elements than they do. The greedy walk does not check strided
/// shards, and the graph's does not check uneven cuts, so their plans may have these faults.
bool keeps_data(const Plan& plan);

/// Makes whole every tensor dim that a changing mesh dim cuts, last cut first, then cuts in the
/// target's order.
Plan plan_through_whole(const DTensorSpec& source, const DTensorSpec& target);

/// The plan that is executed: the one that make_plan chooses, its steps merged over the options'
/// flattened dims; for strided shards, where the reference's plan would mix up elements, one
/// through whole tensor dims.
PlanResult make_safe_plan(const DTensorSpec& source, const DTensorSpec& target,
                          const PlanOptions& options);

}  // namespace shardlab
