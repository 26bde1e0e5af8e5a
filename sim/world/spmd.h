// spmd.h - a C++ program on every rank of a simulated world, ready to run: all ops, CPU devices,
// the default planner. The header for programs; it is made of world.h.
#pragma once

#include "api/shardlab.h"  // IWYU pragma: export
#include "sim/world/world.h"

namespace shardlab {

class OpRegistry;  // schema/op_row.h, as shardlab/ops.h has it

/// Runs `body` on ranks 0..world_size-1, one fiber each, and returns when all have ended. Ranks run
/// on as many OS threads as there are processors (SchedulerOptions::workers): data that `body`
/// changes outside of itself must be safe for several threads, or of one rank. Throws all failures
/// in one (WorldResult::merged): part "failed" names the ranks. Tensors that the body stores
/// elsewhere stay valid. Under the scheduler `seeded`, part "schedule" has the seed that runs the
/// same interleaving again.
void spmd(std::int64_t world_size, const std::function<void(RankContext&)>& body);
/// The same over other ops, which tensors that outlive the run need, too.
void spmd(std::int64_t world_size, const OpRegistry& ops,
          const std::function<void(RankContext&)>& body);
/// The same; empty fields of `options` (device, propagator, plans, workers) are filled in.
///   fails  as make_device, too, if `device_type` names it
void spmd(WorldOptions options, const std::function<void(RankContext&)>& body);
/// The same, but returns the outcome instead of throwing the ranks' errors.
WorldResult try_spmd(WorldOptions options, const std::function<void(RankContext&)>& body);

/// Options from the program's arguments, in place of the defaults: --ranks, --backend, --device,
/// --scheduler, --workers, --seed, --[no-]check-collectives as of `shardlab run`, else
/// SHARDLAB_RANKS, SHARDLAB_BACKEND, ... of the environment. These arguments are taken out of argv;
/// others are left to the program. If each rank is a process there are as many ranks as processes,
/// unless --ranks says otherwise: one program runs on threads, under mpirun and under torchrun.
///   fails  Value: an unknown backend or scheduler, a text that is no number. As
///          ProcessBackend::join
WorldOptions options_from(int& argc, char** argv, WorldOptions defaults = {});

/// All of a program's main(): `body` on the ranks of options_from(). Returns 0; 1 if it fails; 2 if
/// it cannot run as asked; 4 if ranks are processes and this one ends only because another failed,
/// was lost or fell silent (sim/contract.md). Whatever happened, stderr has the message, of several
/// processes that of the first one that is left on each host; all write it for torchrun.
int run_main(int argc, char** argv, WorldOptions defaults,
             const std::function<void(RankContext&)>& body);

/// All ops, and those that a program adds to them or changes: OpRegistry::add, set_rule,
/// set_handler, set_factor_rule (shardlab/ops.h has them). tests/unit/world/extension_test.cpp has
/// examples.
std::unique_ptr<const OpRegistry> ops_with(const std::function<void(OpRegistry&)>& extend);

}  // namespace shardlab
