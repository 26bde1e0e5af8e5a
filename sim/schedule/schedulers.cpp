// Schedulers by name. `seeded` is the pool with one worker that draws the next rank.
#include "sim/schedule/schedulers.h"

#include "sim/schedule/pool_scheduler.h"
#include "sim/schedule/thread_scheduler.h"

namespace shardlab {

std::string_view to_string(SchedulerKind kind) {
  constexpr std::string_view kNames[] = {"pool", "threads", "seeded"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<SchedulerKind> parse_scheduler(std::string_view name) {
  for (const SchedulerKind kind : kSchedulerKinds) {
    if (name == to_string(kind)) return kind;
  }
  return std::nullopt;
}

std::unique_ptr<Scheduler> make_scheduler(const SchedulerOptions& options) {
  if (options.kind == SchedulerKind::kThreads) return std::make_unique<ThreadScheduler>();
  if (options.kind == SchedulerKind::kSeeded) {
    return std::make_unique<PoolScheduler>(options.stack_bytes, 1, options.seed);
  }
  return std::make_unique<PoolScheduler>(options.stack_bytes,
                                         std::max<std::int64_t>(1, options.workers));
}

std::uint64_t drawn_steps(const Scheduler& scheduler) {
  const auto* pool = dynamic_cast<const PoolScheduler*>(&scheduler);
  return pool == nullptr ? 0 : pool->steps();
}

}  // namespace shardlab
