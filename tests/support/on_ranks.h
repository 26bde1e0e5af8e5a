// on_ranks.h - runs a test body on many simulated ranks.
#pragma once

#include <cstdint>
#include <functional>

#include "base/rank_context.h"
#include "sim/world/world.h"
#include "tensor/device.h"

namespace shardlab {

/// A CPU device without kernels, shared by all tests; or the device that SHARDLAB_DEVICE names, on
/// machines that have it (tests/gpu/run).
Device& plain_device();
/// A world of `ranks` ranks on plain_device().
WorldOptions plain_world(std::int64_t ranks, SchedulerKind kind = SchedulerKind::kPool);

/// Runs `body` on ranks 0..ranks-1 and throws the merged failures of all of them.
void on_ranks(std::int64_t ranks, const std::function<void(RankContext&)>& body);
void on_ranks(const WorldOptions& options, const std::function<void(RankContext&)>& body);

}  // namespace shardlab
