// Edges in the order of table 4.4 of tests/behaviour.md. The order matters: the search leaves
// states of equal cost in the order in which they were pushed, so that it decides which of
// several cheapest plans is taken.
#include "plan/successors.h"

#include <algorithm>
#include <optional>

namespace shardlab {
namespace {

void collect(EdgeRules& edges, const Placements& placements) {
  for (const Placement& placement : placements) {
    if (!placement.is_partial() || placement.kind == PlacementKind::kNormPartial) continue;
    auto& ops = edges.to_partial;
    if (std::find(ops.begin(), ops.end(), placement.op) == ops.end()) ops.push_back(placement.op);
  }
}

/// The mesh dim that cut each tensor dim last: only that one may change.
InlineVector<std::size_t, 4> last_cuts(const PlanState& state, std::size_t tensor_dims) {
  InlineVector<std::size_t, 4> last;
  for (std::size_t dim = 0; dim < tensor_dims; ++dim) {
    std::optional<std::size_t> latest;
    for (std::size_t mesh_dim = 0; mesh_dim < state.order.size(); ++mesh_dim) {
      if (!state.placements[mesh_dim].is_shard(static_cast<std::int64_t>(dim))) continue;
      if (!latest || state.order[mesh_dim] > state.order[*latest]) latest = mesh_dim;
    }
    if (latest) last.push_back(*latest);
  }
  return last;
}

void add_shards(std::vector<Change>& changes, std::size_t mesh_dim, const Placement& from,
                const EdgeRules& rules) {
  for (std::size_t dim = 0; dim < rules.tensor_dims; ++dim) {
    const auto to = static_cast<std::int64_t>(dim);
    if (!from.is_shard(to)) changes.push_back({mesh_dim, Placement::shard(to)});
  }
}

/// a spec holds one kind of partial, except sum with avg.
bool mixes(const Placements& placements, ReduceOp op) {
  return std::any_of(placements.begin(), placements.end(), [&](const Placement& other) {
    return other.is_partial() && !may_mix(other, Placement::partial(op));
  });
}

}  // namespace

EdgeRules edge_rules(const DTensorSpec& source, const DTensorSpec& target, PlanRules rules) {
  EdgeRules edges;
  edges.tensor_dims = source.ndim();
  edges.rules = rules;
  if (rules == PlanRules::kSeed) {
    edges.to_partial = {ReduceOp::kSum};
  } else {
    collect(edges, source.placements());
    collect(edges, target.placements());
  }
  if (target.has_strided() && !target.has_strided_order()) {
    for (const Placement& placement : target.placements()) {
      const bool known = std::ranges::find(edges.strided, placement) != edges.strided.end();
      if (placement.is_strided_shard() && !known) edges.strided.push_back(placement);
    }
  }
  return edges;
}

std::vector<Change> successors(const PlanState& state, const EdgeRules& rules) {
  std::vector<Change> changes;
  changes.reserve(state.placements.size() * (rules.tensor_dims + 2));
  const Placements& placements = state.placements;
  const auto movable = last_cuts(state, rules.tensor_dims);
  const auto gathered = [&](bool strided) {
    for (const std::size_t cut : movable) {
      if (placements[cut].is_strided_shard() != strided) continue;
      changes.push_back({cut, Placement::replicate()});
    }
  };
  for (const std::size_t cut : movable) {
    if (placements[cut].is_plain_shard()) add_shards(changes, cut, placements[cut], rules);
  }
  const auto each = [&](bool (Placement::*is)() const, const auto& add) {
    for (std::size_t dim = 0; dim < placements.size(); ++dim) {
      if ((placements[dim].*is)()) add(dim);
    }
  };
  const auto cut = [&](std::size_t dim) { add_shards(changes, dim, placements[dim], rules); };
  gathered(false);
  each(&Placement::is_partial, [&](std::size_t dim) {
    changes.push_back({dim, Placement::replicate()});
  });
  each(&Placement::is_replicate, cut);
  each(&Placement::is_partial, cut);
  each(&Placement::is_replicate, [&](std::size_t dim) {
    for (const ReduceOp op : rules.to_partial) {
      if (rules.rules == PlanRules::kV2_15 && mixes(placements, op)) continue;
      changes.push_back({dim, Placement::partial(op)});
    }
  });
  gathered(true);
  each(&Placement::is_replicate, [&](std::size_t dim) {
    for (const Placement& strided : rules.strided) changes.push_back({dim, strided});
  });
  return changes;
}

std::vector<Change> successors_to_partial(const PlanState& state, const PlanState& target,
                                          const EdgeRules& rules) {
  std::vector<Change> changes;
  for (const std::size_t cut : last_cuts(state, rules.tensor_dims)) {
    const Placement& wanted = target.placements[cut];
    const bool local = step_kind(state.placements[cut], wanted) == StepKind::kShardToPartial;
    if (local) changes.push_back({cut, wanted});
  }
  return changes;
}

double StepWeights::of(StepKind kind) const {
  switch (kind) {
    case StepKind::kAllReduce:
      return all_reduce;
    case StepKind::kAllGather:
      return all_gather;
    case StepKind::kReduceScatter:
      return reduce_scatter;
    case StepKind::kAllToAll:
      return all_to_all;
    default:
      return 0;
  }
}

}  // namespace shardlab
