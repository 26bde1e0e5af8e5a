// options.h - options of one redistribution: those that programs may set, without the planner
// itself.
#pragma once

#include <cstdint>
#include <optional>

#include "comm/call.h"
#include "plan/planner_kind.h"

namespace shardlab {

/// Backward: gradients that arrive at a partial stay replicated.
enum class Direction : std::uint8_t { kForward, kBackward };

/// The tag of messages with which values move; those of programs are not negative.
inline constexpr std::int64_t kMoveTag = -2;

/// Options of one redistribution. Asynchronous ones return a tensor that is pending.
struct RedistributeOptions {
  Issue issue = Issue::kWait;
  Direction direction = Direction::kForward;
  std::optional<PlannerKind> planner = {};
  int argument = -1;  ///< for the observer's record
};

}  // namespace shardlab
