// spmd.h - a C++ program on every rank of a simulated world, ready to run: all ops, CPU devices,
// the default planner. The header for programs; world.h is what it stands on.
#pragma once

#include "api/shardlab.h"  // IWYU pragma: export
#include "schema/op_row.h"
#include "sim/world/world.h"

namespace shardlab {

/// Runs `body` on ranks 0..world_size-1, one fiber each, and returns when all have ended. Throws
/// all failures in one (WorldResult::merged): part "failed" names the ranks. Tensors that the body
/// puts aside stay valid. Under the scheduler `seeded`, part "schedule" tells the seed that runs
/// the same interleaving again.
void spmd(std::int64_t world_size, const std::function<void(RankContext&)>& body);
/// The same over other ops, which tensors that outlive the run need, too.
void spmd(std::int64_t world_size, const OpRegistry& ops,
          const std::function<void(RankContext&)>& body);
/// The same; what `options` leaves empty (device, propagator, plans) is filled in.
void spmd(WorldOptions options, const std::function<void(RankContext&)>& body);
/// The same, but says how it went instead of throwing what ranks threw.
WorldResult try_spmd(WorldOptions options, const std::function<void(RankContext&)>& body);

/// All ops, and what a program adds to them or changes: OpRegistry::add, set_rule, set_handler,
/// set_factor_rule (ops/factor_rule.h). tests/unit/world/extension_test.cpp has examples.
std::unique_ptr<const OpRegistry> ops_with(const std::function<void(OpRegistry&)>& extend);

}  // namespace shardlab
