// pool_scheduler.h - ranks as fibers (Boost.Context) on a few workers, each an OS thread. A
// worker's own data is in Worker; a fiber stays on its worker, and messages of other threads for it
// pass through the worker's inbox. With a seed and one worker it is the scheduler `seeded`: the
// next rank is drawn, at every switch and at interleave().
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/rank_context.h"
#include "base/scheduler.h"
#include "sim/schedule/exception_state.h"
#include "sim/schedule/fiber_stack.h"
#include "sim/schedule/ready_queue.h"
#include "sim/schedule/sanitizer.h"

namespace shardlab {

/// Values do not depend on the number of workers, since reductions have a fixed order. One run at a
/// time; stacks are kept between runs.
class PoolScheduler final : public Scheduler {
 public:
  /// `workers` >= 1; a run of fewer ranks takes fewer.
  PoolScheduler(std::size_t stack_bytes, std::int64_t workers,
                std::optional<std::uint64_t> seed = {})
      : stacks_(stack_bytes), most_workers_(workers), seed_(seed) {
    explores_ = seed.has_value();
  }

  void run(std::int64_t ranks, const std::function<void(std::int64_t)>& body) override;
  void park() override;
  void unpark(std::int64_t rank) override;
  void unpark_all(std::span<const std::int64_t> ranks) override;
  void yield() override;
  void block_on(const std::function<void()>& wait) override;
  std::int64_t current() const override;
  std::int64_t thread_of(std::int64_t rank) const override;
  /// With a seed: how many ranks were drawn in the last run.
  std::uint64_t steps() const { return workers_ ? workers_[0].ready.popped() : 0; }

 private:
  void explore() override;
  /// A parked fiber waits for unpark(); a ready one is in its worker's queue.
  enum class State : std::uint8_t { kReady, kRunning, kParked, kEnded };

  struct Worker;
  /// Data that a switch reads is on one cache line.
  struct alignas(64) Fiber {
    void* machine = nullptr;  ///< saved registers, while suspended
    RankContext* context = nullptr;
    ExceptionState exceptions;
    Worker* worker = nullptr;
    std::int32_t rank = -1;
    State state = State::kReady;
    bool permit = false;
    FiberStack stack;  ///< of a worker's own fiber: the bounds from ASan when it is left
    sanitizer::FiberState sanitizer;
    RankContext identity;  ///< the rank that runs here, until the body adds to it
  };
  /// Ranks [first, first + count).
  struct alignas(64) Worker {
    Fiber main;  ///< the OS thread itself
    Fiber* running = nullptr;
    ReadyQueue ready;
    ExceptionState* exceptions = nullptr;
    std::int64_t live = 0;
    std::size_t first = 0;
    std::size_t count = 0;

    // Wakes from outside of the worker. Guarded by the scheduler's mutex, except `mail`.
    std::atomic<bool> mail{false};
    bool asleep = false;
    std::vector<std::int32_t> inbox;
    std::condition_variable woken;
  };
  struct Entry;
  using Lock = std::unique_lock<std::mutex>;

  void start(std::size_t ranks, std::size_t workers);
  /// On the worker's own thread.
  void serve(Worker& worker);
  void loop(Worker& worker);
  void switch_to(Worker& worker, Fiber& next);
  /// Puts `next` and its per-thread state in place; the jump follows. Returns the context it
  /// replaces.
  [[gnu::always_inline]] inline RankContext* resume(Worker& worker, Fiber& next);
  /// The next runnable fiber of this worker, else its main fiber.
  [[gnu::always_inline]] inline Fiber& next_of(Worker& worker);
  /// Prefetches data that a switch to the fiber after the next one reads.
  [[gnu::always_inline]] inline void fetch_next(const Worker& worker) const;
  [[gnu::always_inline]] inline void wake(Worker& worker, Fiber& fiber);
  /// Takes over ranks that other threads have woken.
  void drain_inbox(Worker& worker);
  /// Called on any thread with the mutex held, but not on the ranks of this worker.
  void post_locked(Worker& worker, std::span<const std::int64_t> ranks);
  /// The worker whose rank calls; null outside of ranks.
  [[gnu::always_inline]] inline Worker* worker_here() const;
  Worker& worker_of(std::int64_t rank) const {
    return *fibers_[static_cast<std::size_t>(rank)].worker;
  }
  void count_outside(std::int64_t change);
  /// Nothing to do: waits for mail.
  void idle(Worker& worker);
  bool stalled() const { return working_ > 0 && asleep_ == working_ && outside_waits_ == 0; }
  /// Runs the stall handler as long as no rank can advance. Called with the mutex held; releases it
  /// while the handler runs.
  void resolve_stalls(Lock& lock);

  LentStacks stacks_;
  const std::int64_t most_workers_;
  const std::optional<std::uint64_t> seed_;
  const std::function<void(std::int64_t)>* body_ = nullptr;
  std::vector<Fiber> fibers_;
  std::unique_ptr<Worker[]> workers_;
  std::atomic<bool> broken_{false};  ///< a stall that was not resolved

  std::mutex mutex_;                // guards the inboxes and the following
  std::int64_t working_ = 0;        ///< workers that have live ranks
  std::int64_t asleep_ = 0;         ///< of these
  std::int64_t outside_waits_ = 0;  ///< of block_on
  std::uint64_t wakes_ = 0;         ///< of workers, because a parked rank was woken
  bool resolving_ = false;
};

}  // namespace shardlab
