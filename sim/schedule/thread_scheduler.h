// thread_scheduler.h - one std::thread per rank: real stacks for debuggers, real races for TSan.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/scheduler.h"

namespace shardlab {

/// Costs a thread of the system per rank, so that it is for debugging and for sanitizers.
class ThreadScheduler final : public Scheduler {
 public:
  void run(std::int64_t ranks, const std::function<void(std::int64_t)>& body) override;
  void park() override;
  void unpark(std::int64_t rank) override;
  void unpark_all(std::span<const std::int64_t> ranks) override;
  void yield() override;
  /// Waits here: the other ranks have threads of their own.
  void block_on(const std::function<void()>& wait) override { wait(); }
  std::int64_t current() const override;
  std::int64_t thread_of(std::int64_t rank) const override { return rank; }

 private:
  struct Seat {
    std::condition_variable woken;
    bool parked = false;
    bool permit = false;
  };
  enum class Gate : std::uint8_t { kClosed, kOpen, kCancelled };

  void serve(std::int64_t rank, std::int64_t ranks, const std::function<void(std::int64_t)>& body);
  void open(Gate gate);
  /// Runs the stall handler as long as all live ranks are parked. Called with the mutex held;
  /// releases it while the handler runs.
  void resolve_stalls(std::unique_lock<std::mutex>& lock);
  /// Their threads continue when they are notified. With the mutex held.
  void wake(Seat& seat);
  void notify(std::span<const std::int64_t> ranks);

  std::mutex mutex_;  // guards all below
  std::condition_variable gate_opened_;
  Gate gate_ = Gate::kClosed;
  std::unique_ptr<Seat[]> seats_;
  std::int64_t live_ = 0;
  std::int64_t parked_ = 0;
  std::uint64_t wakes_ = 0;
  bool resolving_ = false;
  bool broken_ = false;  // a stall that was not resolved
};

}  // namespace shardlab
