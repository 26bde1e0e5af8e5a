// successors.h - the edges of the graph planner (behaviour 4.4). Pure.
#pragma once

#include <vector>

#include "plan/state.h"

namespace shardlab {

/// One mesh dim changes its placement.
struct Change {
  std::size_t mesh_dim;
  Placement to;
};

/// The edges that exist.
struct EdgeRules {
  std::size_t tensor_dims = 0;
  InlineVector<ReduceOp, 2> to_partial;  ///< R -> P for these reductions (R-16: sum)
  PlanRules rules = PlanRules::kV2_15;   ///< the seed does not mind mixed partials (X-41)
  Placements strided;                    ///< the target's strided shards that mean no order
  bool operator==(const EdgeRules&) const = default;
};
/// R -> P edges for every reduction that source or target hold; the seed's for sum alone. R -> SS
/// edges for strided shards of the target; there are no other edges to them, and none from them but
/// to R.
EdgeRules edge_rules(const DTensorSpec& source, const DTensorSpec& target, PlanRules rules);

/// The changes that lead out of `state`, in the order that decides ties.
std::vector<Change> successors(const PlanState& state, const EdgeRules& rules);
/// the changes S -> P(sum) towards a target that wants them; they lead nowhere else.
std::vector<Change> successors_to_partial(const PlanState& state, const PlanState& target,
                                          const EdgeRules& rules);

}  // namespace shardlab
