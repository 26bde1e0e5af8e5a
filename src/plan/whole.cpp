// Plans that always keep the data: every tensor dim that a change touches is gathered whole, later
// cuts first, and then cut as the target has it, earlier cuts first. They serve where strided
// shards mean no order, or where the planner's own path would undo a cut that is not the last one
// of its dim.
#include "plan/whole.h"

#include <algorithm>

#include "plan/merge.h"
#include "plan/state.h"

namespace shardlab {
namespace {

using TensorDims = InlineVector<std::int32_t, 8>;

bool contains(const TensorDims& dims, const Placement& placement) {
  return placement.is_shard() && std::find(dims.begin(), dims.end(), placement.dim) != dims.end();
}

/// Mesh dims whose placement or place in the cutting order changes, and those that cut a tensor dim
/// which a changing one cuts before or afterwards.
InlineVector<std::size_t, 4> moving_dims(const DTensorSpec& source, const DTensorSpec& target) {
  TensorDims touched;
  const std::size_t ndim = source.placements().size();
  for (std::size_t mesh_dim = 0; mesh_dim < ndim; ++mesh_dim) {
    const Placement& from = source.placement(mesh_dim);
    const Placement& to = target.placement(mesh_dim);
    if (from == to && source.order()[mesh_dim] == target.order()[mesh_dim]) continue;
    if (from.is_shard()) touched.push_back(from.dim);
    if (to.is_shard()) touched.push_back(to.dim);
  }
  InlineVector<std::size_t, 4> moving;
  for (std::size_t mesh_dim = 0; mesh_dim < ndim; ++mesh_dim) {
    const Placement& from = source.placement(mesh_dim);
    const Placement& to = target.placement(mesh_dim);
    if (from != to || contains(touched, from) || contains(touched, to)) moving.push_back(mesh_dim);
  }
  return moving;
}

}  // namespace

bool keeps_data(const Plan& plan) {
  const bool decoded = plan.planner != PlannerKind::kGreedy;
  // On uneven cuts the order may hold other elements than the strided shards that mean it.
  const auto reported = [](const DTensorSpec* spec) {
    return !spec->has_strided_order() || decodable(*spec);
  };
  if (decoded && !(reported(plan.source) && reported(plan.target))) return false;
  PlanState state = first_state(plan);
  for (const PlanStep& step : plan.steps) {
    if (step.from.is_shard() && step.kind != StepKind::kPermute) {
      const auto cuts = cutting_order(state.placements, state.order, step.from.dim);
      if (cuts.back() != step.mesh_dims[0]) return false;
    }
    state = {step.after, step.order_after};
  }
  return state == (decoded ? ordered_state(*plan.target)
                           : PlanState{plan.target->placements(), plan.target->order()});
}

Plan plan_through_whole(const DTensorSpec& source, const DTensorSpec& target) {
  Plan plan;
  plan.source = &source;
  plan.target = &target;
  PlanState state{source.placements(), source.order()};
  auto moving = moving_dims(source, target);
  // Later cuts first: places only compare within one tensor dim, which is enough.
  std::stable_sort(moving.begin(), moving.end(), [&](std::size_t a, std::size_t b) {
    return source.order()[a] > source.order()[b];
  });
  for (const std::size_t mesh_dim : moving) {
    if (state.placements[mesh_dim].is_shard()) {
      append_step(plan, state, mesh_dim, Placement::replicate());
    }
  }
  std::stable_sort(moving.begin(), moving.end(), [&](std::size_t a, std::size_t b) {
    return target.order()[a] < target.order()[b];
  });
  for (const std::size_t mesh_dim : moving) {
    const Placement& to = target.placement(mesh_dim);
    if (state.placements[mesh_dim] != to) append_step(plan, state, mesh_dim, to);
  }
  return plan;
}

PlanResult make_safe_plan(const DTensorSpec& source, const DTensorSpec& target,
                          const PlanOptions& options) {
  PlanResult result = make_plan(source, target, options);
  Plan* plan = std::get_if<Plan>(&result);
  if (!plan) return result;
  const bool strided = source.has_strided() || target.has_strided();
  if (strided && !keeps_data(*plan)) return plan_through_whole(source, target);
  return merge_steps(*plan, options.flattened);
}

}  // namespace shardlab
