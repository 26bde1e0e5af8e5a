// graph.h - the moves that the graph planner plans. Pure.
#pragma once

#include <optional>

#include "plan/successors.h"

namespace shardlab {

/// The cost model under which the graph planner plans a move; nothing where the greedy one does
///
std::optional<CostModel> graph_model(const DTensorSpec& source, const DTensorSpec& target,
                                     std::optional<PlannerKind> planner, PlanRules rules);

}  // namespace shardlab
