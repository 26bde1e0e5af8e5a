// Consecutive steps of one kind over several mesh dims are one collective over the group of these
// dims, if that group was made (flattened) and its rank order gives the same result: gathers undo
// cuts from the innermost mesh dim outwards, scatters cut from the outermost inwards and evenly,
// because the chunk rule applied twice is not the chunk rule over the product; reductions may be in
// any order. An average becomes a sum that is divided at the end.
#include "plan/merge.h"

#include <algorithm>
#include <functional>

namespace shardlab {
namespace {

using Steps = std::span<const PlanStep>;

bool may_merge(StepKind kind) {
  return kind == StepKind::kAllReduce || kind == StepKind::kAllGather ||
         kind == StepKind::kReduceScatter;
}

bool adds_up(const Placement& from) {
  return from.is_partial(ReduceOp::kSum) || from.is_partial(ReduceOp::kAvg);
}

bool belong_together(const PlanStep& a, const PlanStep& b) {
  if (a.kind != b.kind || a.to != b.to || a.from.is_strided_shard()) return false;
  return a.from == b.from || (adds_up(a.from) && adds_up(b.from));
}

/// Whether the sizes of a tensor dim that ranks see before the run cuts it are all multiples.
bool divides_evenly(const Plan& plan, std::size_t first, Steps run) {
  const MeshLayout& layout = *plan.source->layout();
  std::int64_t pieces = 1;
  for (const PlanStep& step : run) pieces *= layout.size(step.mesh_dims[0]);
  const auto dim = static_cast<std::size_t>(run[0].to.dim);
  for (std::int64_t rank = 0; rank < layout.size(); ++rank) {
    const Dims shape = logical_shape(plan, first, layout.coordinate_at_index(rank));
    if (shape[dim] % pieces != 0) return false;
  }
  return true;
}

bool merges(const Plan& plan, std::size_t first, Steps run, const FlattenedDims& flattened) {
  if (run.size() < 2) return false;
  std::uint32_t mask = 0;
  for (const PlanStep& step : run) mask |= 1u << step.mesh_dims[0];
  if (std::find(flattened.begin(), flattened.end(), mask) == flattened.end()) return false;
  const auto mesh_dim = [](const PlanStep& step) { return step.mesh_dims[0]; };
  switch (run[0].kind) {
    case StepKind::kAllGather:
      return std::ranges::is_sorted(run, std::greater<>(), mesh_dim);
    case StepKind::kReduceScatter:
      return std::ranges::is_sorted(run, std::less<>(), mesh_dim) &&
             divides_evenly(plan, first, run);
    default:
      return true;
  }
}

PlanStep merged(Steps run, const MeshLayout& layout) {
  PlanStep step = run.back();
  step.from = run[0].from;
  step.mesh_dims.clear();
  for (const PlanStep& one : run) {
    step.mesh_dims.push_back(one.mesh_dims[0]);
    if (!one.from.is_partial(ReduceOp::kAvg)) continue;
    step.avg_scale *= static_cast<double>(layout.size(one.mesh_dims[0]));
  }
  if (step.avg_scale > 1) step.from = Placement::partial(ReduceOp::kSum);
  return step;
}

}  // namespace

Plan merge_steps(const Plan& plan, const FlattenedDims& flattened) {
  Plan result = plan;
  if (flattened.empty()) return result;
  result.steps.clear();
  for (std::size_t first = 0; first < plan.steps.size();) {
    std::size_t end = first + 1;
    while (end < plan.steps.size() && may_merge(plan.steps[first].kind) &&
           belong_together(plan.steps[first], plan.steps[end])) {
      ++end;
    }
    const Steps run(plan.steps.data() + first, end - first);
    if (merges(plan, first, run, flattened)) {
      result.steps.push_back(merged(run, *plan.source->layout()));
    } else {
      result.steps.insert(result.steps.end(), run.begin(), run.end());
    }
    first = end;
  }
  return result;
}

}  // namespace shardlab
