// schedulers.h - the schedulers of simulated ranks (src/README.md, "Time, order and faults come
// from `sim`").
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/scheduler.h"

namespace shardlab {

/// The use of the machine's threads by ranks.
enum class SchedulerKind : std::uint8_t {
  kPool,     ///< fibers on one or a few OS threads: the default
  kThreads,  ///< one std::thread each: for debuggers and race detectors
  kSeeded,   ///< fibers on one OS thread, the next rank drawn from a seed
};
inline constexpr SchedulerKind kSchedulerKinds[] = {SchedulerKind::kPool, SchedulerKind::kThreads,
                                                    SchedulerKind::kSeeded};
/// "pool", "threads", "seeded".
std::string_view to_string(SchedulerKind kind);
std::optional<SchedulerKind> parse_scheduler(std::string_view name);

/// Options of a scheduler. Values of a program depend on none of them.
struct SchedulerOptions {
  SchedulerKind kind = SchedulerKind::kPool;
  /// Stack of a fiber; threads have the system's. Only touched pages are ever resident. A rank that
  /// needs more ends the program, with a message.
  std::size_t stack_bytes = 1024 * 1024;
  /// OS threads of `pool`, at most one for each rank. 0: for spmd() as many as there are
  /// processors, elsewhere one.
  std::int64_t workers = 0;
  /// Seed of the order in which ranks run, if the scheduler is `seeded`. Values never depend on it.
  std::uint64_t seed = 0;
};

/// A scheduler for any number of runs, one at a time; `pool` keeps its stacks for the next run.
/// run() fails with Runtime, before any rank starts, when the system gives no stack or thread.
/// When all ranks are parked and the stall handler wakes none (or there is none), park() fails with
/// Internal on every rank.
std::unique_ptr<Scheduler> make_scheduler(const SchedulerOptions& options);

}  // namespace shardlab
