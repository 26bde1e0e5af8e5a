// planner_kind.h - which planner a redistribution asks for.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardlab {

/// Which algorithm looks for a plan, or the search for the fewest
/// bytes.
enum class PlannerKind : std::uint8_t { kGreedy, kGraph, kBytes };
std::string_view to_string(PlannerKind kind);

}  // namespace shardlab
