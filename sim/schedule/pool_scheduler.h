// pool_scheduler.h - ranks as fibers (Boost.Context). One worker, that is one OS thread, for now:
// all that a worker owns is in Worker, and a fiber keeps to the worker that started it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/rank_context.h"
#include "base/scheduler.h"
#include "sim/schedule/fiber_stack.h"
#include "sim/schedule/ready_queue.h"
#include "sim/schedule/sanitizer.h"

namespace shardlab {

class PoolScheduler final : public Scheduler {
 public:
  explicit PoolScheduler(std::size_t stack_bytes) : stacks_(stack_bytes) {}

  void run(std::int64_t ranks, const std::function<void(std::int64_t)>& body) override;
  void park() override;
  void unpark(std::int64_t rank) override;
  void yield() override;
  void block_on(const std::function<void()>& wait) override;
  std::int64_t current() const override;

 private:
  /// What the C++ runtime keeps per thread about exceptions in flight.
  struct ExceptionState {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };
  enum class State : std::uint8_t { kReady, kRunning, kParked, kEnded };

  struct Worker;
  /// What a switch looks at lies on one cache line.
  struct alignas(64) Fiber {
    void* machine = nullptr;  ///< saved registers, while suspended
    RankContext* context = nullptr;
    ExceptionState exceptions;
    Worker* worker = nullptr;
    std::int32_t rank = -1;
    State state = State::kReady;
    bool permit = false;
    FiberStack stack;  ///< of a worker's own fiber: what ASan says when it is left
    sanitizer::FiberState sanitizer;
    RankContext identity;  ///< who runs here, until the body says more
  };
  struct Worker {
    Fiber main;  ///< the OS thread itself
    Fiber* running = nullptr;
    ReadyQueue ready;
    ExceptionState* exceptions = nullptr;
    std::int64_t live = 0;
  };
  struct Entry;

  void start(std::int64_t ranks);
  void loop(Worker& worker);
  void switch_to(Worker& worker, Fiber& next);
  /// Puts `next` and its per-thread state in place; the jump follows. Returns the context it
  /// replaces.
  RankContext* resume(Worker& worker, Fiber& next);
  /// The next runnable fiber of this worker, else its main fiber.
  Fiber& next_of(Worker& worker);
  void wake(Worker& worker, Fiber& fiber);
  /// Takes over what other threads have woken.
  void drain_inbox(Worker& worker);
  bool on_worker() const;
  void count_outside(std::int64_t change);
  void stall(Worker& worker);

  StackPool stacks_;
  const std::function<void(std::int64_t)>* body_ = nullptr;
  std::vector<Fiber> fibers_;
  Worker worker_;
  bool broken_ = false;  ///< a stall that nobody resolved

  // Wakes from outside of the worker.
  std::mutex inbox_mutex_;
  std::condition_variable inbox_filled_;
  std::vector<std::int32_t> inbox_;
  std::atomic<bool> inbox_waiting_{false};
  std::int64_t outside_waits_ = 0;  ///< of block_on; changed by the worker only
};

}  // namespace shardlab
