// planner_name.h - planners as users name them.
#pragma once

#include <optional>
#include <string_view>

#include "plan/plan.h"

namespace shardlab {

/// "greedy", "graph" or "bytes"; empty for other names.
inline std::optional<PlannerKind> parse_planner(std::string_view name) {
  for (const PlannerKind kind : {PlannerKind::kGreedy, PlannerKind::kGraph, PlannerKind::kBytes}) {
    if (to_string(kind) == name) return kind;
  }
  return std::nullopt;
}

}  // namespace shardlab
