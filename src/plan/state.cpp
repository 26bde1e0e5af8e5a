// One step changes one mesh dim, and with it the cutting orders of two tensor dims at most.
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
  if (state.placements[mesh_dim] == to) return;
  const auto cut_by = [](const Placement& placement) -> std::int64_t {
    return placement.is_shard() ? placement.dim : -1;
  };
  recut(
      state.order.size(), mesh_dim, cut_by(to),
      [&](std::size_t dim) { return cut_by(state.placements[dim]); },
      [&](std::size_t dim) -> std::int32_t& { return state.order[dim]; });
  state.placements[mesh_dim] = to;
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
