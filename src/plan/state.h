// state.h - placements with their cutting order, as plans pass through them. Pure.
#pragma once

#include <type_traits>

#include "plan/plan.h"

namespace shardlab {

/// A node of the planners' searches. A value.
struct PlanState {
  Placements placements;
  ShardOrder order;
  bool operator==(const PlanState&) const = default;
};

/// The executor's step for the change of one mesh dim.
StepKind step_kind(const Placement& from, const Placement& to);

/// Places in the cutting orders after mesh dim `changed` has begun to cut tensor dim `to` (-1:
/// none), in whatever form a state has them: `tensor_dim(i)` is the dim that mesh dim i cut before
/// that, or -1, and `place(i)` its place. The later cuts of the old tensor dim move up, and the new
/// one is the last.
template <typename TensorDim, typename Place>
void recut(std::size_t mesh_dims, std::size_t changed, std::int64_t to, const TensorDim& tensor_dim,
           const Place& place) {
  const std::int64_t from = tensor_dim(changed);
  auto& own = place(changed);
  int cuts = 0;
  for (std::size_t other = 0; other < mesh_dims; ++other) {
    const std::int64_t cut = tensor_dim(other);
    if (other == changed || cut < 0) continue;
    if (cut == from && place(other) > own) --place(other);
    if (cut == to) ++cuts;
  }
  own = static_cast<std::remove_reference_t<decltype(own)>>(to < 0 ? -1 : cuts);
}

/// The state after `mesh_dim` became `to`: its place in the old tensor dim's order is removed, and
/// it becomes the last cut of the new one.
void advance(PlanState& state, std::size_t mesh_dim, const Placement& to);

/// Appends the step that takes `state` to `to` on one mesh dim, and advances the state.
void append_step(Plan& plan, PlanState& state, std::size_t mesh_dim, const Placement& to);

/// True when a graph plan may start or end at a spec: its strided shards, if they mean an order,
/// are the strided form of some order (layout README).
bool encodes_order(const DTensorSpec& spec);
/// True when the strided shards of a spec mean an order that holds the same elements on every rank.
/// On cuts with remainders the two may differ (7 rows as SS(0,2)S(0) on 3x2). Shards that a view
/// left mean none.
bool decodable(const DTensorSpec& spec);

/// This coordinate's piece in a state.
Dims state_shape(const DTensorSpec& spec, const PlanState& state, const Coordinate& coordinate);
/// The same as index runs per tensor dim.
LocalView state_view(const DTensorSpec& spec, const PlanState& state, const Coordinate& coordinate);

/// The state before step `index` of a plan.
PlanState state_before(const Plan& plan, std::size_t index);
/// The state a plan starts from.
PlanState first_state(const Plan& plan);
/// A spec's state with strided shards decoded to the order that they mean, if they mean one and
/// there is one.
PlanState ordered_state(const DTensorSpec& spec);

}  // namespace shardlab
