// spmd.h - a C++ program on every rank of a simulated world, ready to run: all ops, CPU devices,
// the default planner. The header for programs; world.h is what it stands on.
#pragma once

#include "api/shardlab.h"  // IWYU pragma: export
#include "sim/world/world.h"

namespace shardlab {

/// Runs `body` on ranks 0..world_size-1, one fiber each, and returns when all have ended. Throws
/// all failures in one (WorldResult::merged): part "failed" names the ranks. Tensors that the body
/// puts aside stay valid.
void spmd(std::int64_t world_size, const std::function<void(RankContext&)>& body);
/// The same; what `options` leaves empty (device, propagator, plans) is filled in.
void spmd(WorldOptions options, const std::function<void(RankContext&)>& body);
/// The same, but says how it went instead of throwing what ranks threw.
WorldResult try_spmd(WorldOptions options, const std::function<void(RankContext&)>& body);

}  // namespace shardlab
