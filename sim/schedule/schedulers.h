// schedulers.h - the schedulers of simulated ranks (src/README.md, "Time, order and faults come
// from `sim`").
#pragma once

#include <algorithm>
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
  /// If its upper half is not 0, it is a number of steps, and orders are those of PCT: ranks have
  /// drawn priorities, and at one drawn step the first one becomes the last.
  std::uint64_t seed = 0;
};

/// The seed of an order of PCT over so many steps.
inline std::uint64_t pct_seed(std::uint64_t steps, std::uint64_t draw) {
  constexpr std::uint64_t kMost = 0xffffffff;
  return std::min(steps, kMost) << 32 | (draw & kMost);
}
/// The least chance that a run under a drawn order of PCT meets a bug that one change of priorities
/// brings out.
inline double pct_bound(std::int64_t ranks, std::uint64_t steps) {
  return 1.0 /
         (static_cast<double>(ranks) * static_cast<double>(std::max<std::uint64_t>(1, steps)));
}

/// A scheduler for any number of runs, one at a time; `pool` keeps its stacks for the next run.
/// run() fails with Runtime, before any rank starts, when the system gives no stack or thread.
/// When all ranks are parked and the stall handler wakes none (or there is none), park() fails with
/// Internal on every rank.
std::unique_ptr<Scheduler> make_scheduler(const SchedulerOptions& options);
/// The number of ranks that `seeded` drew in its last run; 0 of others.
std::uint64_t drawn_steps(const Scheduler& scheduler);

}  // namespace shardlab
