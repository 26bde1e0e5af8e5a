// The greedy plan is its walk, written down.
#include "plan/greedy.h"

#include "plan/state.h"

namespace shardlab {

PlanResult plan_greedy(const DTensorSpec& source, const DTensorSpec& target, PlanRules rules) {
  Plan plan;
  plan.source = &source;
  plan.target = &target;
  plan.planner = PlannerKind::kGreedy;
  PlanState state{source.placements(), source.order()};
  GreedyWalk walk(source, target.placements(), rules);
  walk.run([&](std::size_t mesh_dim, const Placement&, const Placement& to) {
    append_step(plan, state, mesh_dim, to);
  });
  return plan;
}

}  // namespace shardlab
