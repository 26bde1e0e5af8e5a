// planner_kind.h - the planner that a redistribution requests.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardlab {

/// Algorithms that search a plan, or the search for the fewest bytes.
enum class PlannerKind : std::uint8_t { kGreedy, kGraph, kBytes };
std::string_view to_string(PlannerKind kind);

}  // namespace shardlab
