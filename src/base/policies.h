// policies.h - the names of a rank's policies (D-6), as scenarios, graphs and messages write
// them. Pure.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/rank_context.h"

namespace shardlab {

/// Indexed by ImplicitRedistribution.
inline constexpr std::array<std::string_view, 3> kImplicitNames = {"allow", "warn", "forbid"};

/// "allow", "warn", "forbid".
std::string_view policy_name(ImplicitRedistribution implicit);
/// Reads one of these. Empty when it is none of them.
std::optional<ImplicitRedistribution> parse_implicit(std::string_view name);
/// "refuse", "replicate".
std::string_view policy_name(MixedTensors mixed);

}  // namespace shardlab
