// The choice of a planner, the text of plans and their logical shapes. A greedy plan takes the
// shapes of its source throughout, a graph plan those of the state before each step, without
// the step's own cut; this is right because only the last cut of a tensor dim may change
// . Strided shards that mean an order are planned in it, if every rank owns the same elements
// under both; those that a view left are planned as they are.
#include "plan/plan.h"

#include <algorithm>

#include "plan/graph.h"
#include "plan/state.h"

namespace shardlab {
namespace {

/// One more cut: `shape` becomes that of the piece which the state's shard on `mesh_dim` leaves at
/// this coordinate.
void cut(Dims& shape, const PlanState& state, std::size_t mesh_dim, const MeshLayout& layout,
         const Coordinate& coordinate) {
  const Placement& placement = state.placements[mesh_dim];
  if (!placement.is_shard()) return;
  const auto dim = static_cast<std::size_t>(placement.dim);
  const Cut one{placement, layout.size(mesh_dim), coordinate[mesh_dim]};
  shape[dim] = dim_map(shape[dim], {&one, 1}).local_size();
}

/// only the source's shards on mesh dims outside of the step's.
Dims greedy_shape(const Plan& plan, std::size_t mesh_dim, const Coordinate& coordinate) {
  Dims shape = plan.source->shape();
  const PlanState source{plan.source->placements(), plan.source->order()};
  for (std::size_t outer = 0; outer < mesh_dim; ++outer) {
    if (source.placements[outer].is_plain_shard()) {
      cut(shape, source, outer, *plan.source->layout(), coordinate);
    }
  }
  return shape;
}

/// every cut of the state but the step's own, also those made after it.
Dims graph_shape(const Plan& plan, std::size_t step, const Coordinate& coordinate) {
  Dims shape = plan.source->shape();
  const PlanState state = state_before(plan, step);
  const auto& own = plan.steps[step].mesh_dims;
  for (std::size_t tensor_dim = 0; tensor_dim < shape.size(); ++tensor_dim) {
    const auto dim = static_cast<std::int64_t>(tensor_dim);
    for (const std::size_t other : cutting_order(state.placements, state.order, dim)) {
      if (std::ranges::find(own, other) == own.end())
        cut(shape, state, other, *plan.source->layout(), coordinate);
    }
  }
  return shape;
}

}  // namespace

bool encodes_order(const DTensorSpec& spec) {
  return !spec.has_strided_order() ||
         decode_strided(spec.placements(), spec.layout()->shape()).has_value();
}

bool decodable(const DTensorSpec& spec) {
  if (!spec.has_strided()) return true;
  if (!spec.has_strided_order()) return false;
  const MeshLayout& layout = *spec.layout();
  const auto decoded = decode_strided(spec.placements(), layout.shape());
  if (!decoded) return false;
  const OrderedPlacements strided{spec.placements(), spec.order()};
  for (std::size_t dim = 0; dim < spec.ndim(); ++dim) {
    if (!same_pieces(layout, strided, *decoded, static_cast<std::int64_t>(dim), spec.shape()[dim]))
      return false;
  }
  return true;
}

Dims state_shape(const DTensorSpec& spec, const PlanState& state, const Coordinate& coordinate) {
  Dims shape;
  for (const DimMap& dim : state_view(spec, state, coordinate).dims) {
    shape.push_back(dim.local_size());
  }
  return shape;
}

LocalView state_view(const DTensorSpec& spec, const PlanState& state,
                     const Coordinate& coordinate) {
  LocalView view;
  view.global_shape = spec.shape();
  for (std::size_t dim = 0; dim < spec.ndim(); ++dim) {
    const auto cuts = cuts_of(*spec.layout(), state.placements, state.order,
                              static_cast<std::int64_t>(dim), coordinate);
    view.dims.push_back(dim_map(spec.shape()[dim], cuts));
  }
  return view;
}

namespace {

/// Prints what order_text does, and places for strided shards: in a plan they give the sequence of
/// the cuts.
std::string state_text(const PlanState& state) {
  std::string text;
  for (std::size_t mesh_dim = 0; mesh_dim < state.placements.size(); ++mesh_dim) {
    const Placement& placement = state.placements[mesh_dim];
    text += to_string(placement);
    if (!placement.is_shard()) continue;
    const auto cuts = cutting_order(state.placements, state.order, placement.dim);
    if (cuts.size() > 1) text += fmt::format("[{}]", state.order[mesh_dim]);
  }
  return text;
}

}  // namespace

std::string_view to_string(PlannerKind kind) {
  constexpr std::string_view kNames[] = {"greedy", "graph", "bytes"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string PlanProof::text() const {
  if (optimal) return "optimal";
  return fmt::format("best found, gap <= {} B to the lower bound", bytes - bound);
}

std::string Plan::text() const {
  std::string text = state_text(ordered_state(*source));
  for (const PlanStep& step : steps) {
    const bool merged = step.mesh_dims.size() > 1 && step.kind != StepKind::kPermute;
    text += merged ? "-->" : "->";
    text += state_text({step.after, step.order_after});
  }
  return text;
}

std::optional<std::string> path_fault(const Plan& plan) {
  PlanState state = ordered_state(*plan.source);
  for (const Placement& placement : state.placements) {
    if (!placement.is_strided_shard() || !plan.source->has_strided_order()) continue;
    return fmt::format("{} has no order", to_string(state.placements));
  }
  for (const PlanStep& step : plan.steps) {
    for (const std::size_t mesh_dim : step.mesh_dims) {
      if (step.from.is_shard() &&
          cutting_order(state.placements, state.order, step.from.dim).back() != mesh_dim) {
        return fmt::format("{} is not the last cut of {}", plan.source->layout()->names()[mesh_dim],
                           state_text(state));
      }
      advance(state, mesh_dim, step.to);
    }
  }
  return std::nullopt;
}

std::optional<CostModel> graph_model(const DTensorSpec& source, const DTensorSpec& target,
                                     std::optional<PlannerKind> planner, PlanRules rules) {
  if (source.has_strided() || target.has_strided()) {
    // The reference does so also where uneven cuts make the order hold other elements, which only
    // make_safe_plan checks.
    if (!encodes_order(source) || !encodes_order(target)) return std::nullopt;
    return CostModel::kTime;
  }
  const bool default_orders = source.has_default_order() && target.has_default_order();
  if (default_orders && planner.value_or(PlannerKind::kGreedy) == PlannerKind::kGreedy) {
    return std::nullopt;
  }
  return rules == PlanRules::kSeed ? CostModel::kFixed : CostModel::kTime;
}

PlanResult make_plan(const DTensorSpec& source, const DTensorSpec& target,
                     const PlanOptions& options) {
  if (source.layout() != target.layout()) {
    throw Error(ErrorKind::kUnsupported, "redistribute between different meshes")
        .with("mesh", source.layout()->text() + " -> " + target.layout()->text())
        .with("placements",
              to_string(source.placements()) + " -> " + to_string(target.placements()))
        .with("fix", "build both tensors from one mesh");
  }
  if (options.planner == PlannerKind::kBytes) return plan_bytes(source, target, options);
  const auto model = graph_model(source, target, options.planner, options.rules);
  return model ? plan_graph(source, target, *model, options)
               : plan_greedy(source, target, options.rules);
}

Dims logical_shape(const Plan& plan, std::size_t step, const Coordinate& coordinate) {
  if (plan.planner != PlannerKind::kGreedy) return graph_shape(plan, step, coordinate);
  const PlanStep& one = plan.steps[step];
  const auto outermost = *std::ranges::min_element(one.mesh_dims);
  const bool reduces = one.kind == StepKind::kAllReduce;
  return greedy_shape(plan, reduces ? one.mesh_dims[0] : outermost, coordinate);
}

}  // namespace shardlab
