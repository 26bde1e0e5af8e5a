// One step changes one mesh dim: its cut leaves the order of its old tensor dim, whose later cuts
// move up by one place, and becomes the last cut of its new one.
#include "plan/state.h"

namespace shardlab {

StepKind step_kind(const Placement& from, const Placement& to) {
  if (from == to) return StepKind::kNothing;
  if (to.is_replicate()) return from.is_partial() ? StepKind::kAllReduce : StepKind::kAllGather;
  if (to.is_shard()) {
    if (from.is_partial()) return StepKind::kReduceScatter;
    return from.is_replicate() ? StepKind::kChunk : StepKind::kAllToAll;
  }
  const bool of_norm = to.kind == PlacementKind::kNormPartial;
  if (to.kind != PlacementKind::kPartial && !of_norm) return StepKind::kRefused;
  if (from.is_replicate()) return StepKind::kToPartial;
  const bool to_sum = !of_norm && to.op == ReduceOp::kSum;
  return from.is_plain_shard() && to_sum ? StepKind::kShardToPartial : StepKind::kRefused;
}

void advance(PlanState& state, std::size_t mesh_dim, const Placement& to) {
  const Placement from = state.placements[mesh_dim];
  if (from == to) return;
  if (from.is_shard()) {
    const std::int32_t place = state.order[mesh_dim];
    for (std::size_t other = 0; other < state.order.size(); ++other) {
      const bool later = state.placements[other].is_shard(from.dim) && state.order[other] > place;
      if (later) --state.order[other];
    }
    state.order[mesh_dim] = -1;
  }
  state.placements[mesh_dim] = to;
  if (!to.is_shard()) return;
  std::int32_t cuts = 0;
  for (std::size_t other = 0; other < state.order.size(); ++other) {
    if (other != mesh_dim && state.placements[other].is_shard(to.dim)) ++cuts;
  }
  state.order[mesh_dim] = cuts;
}

void append_step(Plan& plan, PlanState& state, std::size_t mesh_dim, const Placement& to) {
  PlanStep step;
  step.from = state.placements[mesh_dim];
  step.to = to;
  step.kind = step_kind(step.from, to);
  step.mesh_dims.push_back(mesh_dim);
  advance(state, mesh_dim, to);
  step.after = state.placements;
  step.order_after = state.order;
  plan.steps.push_back(std::move(step));
}

PlanState state_before(const Plan& plan, std::size_t index) {
  if (index == 0) return first_state(plan);
  const PlanStep& previous = plan.steps[index - 1];
  return {previous.after, previous.order_after};
}

PlanState first_state(const Plan& plan) {
  if (plan.planner != PlannerKind::kGreedy) return ordered_state(*plan.source);
  return {plan.source->placements(), plan.source->order()};
}

PlanState ordered_state(const DTensorSpec& spec) {
  if (spec.has_strided_order()) {
    const auto decoded = decode_strided(spec.placements(), spec.layout()->shape());
    if (decoded) return {decoded->placements, decoded->order};
  }
  return {spec.placements(), spec.order()};
}

}  // namespace shardlab
