// scheduler.h - sharing of the processor among simulated ranks (src/README.md, "Time, order and
// faults come from `sim`"). The interface only; the implementations are in sim/schedule. Values
// never depend on the scheduler.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace shardlab {

/// One object serves one run at a time. A rank may call park(), yield(), interleave() and
/// block_on(); unpark() is for any thread.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// Runs body(rank) for rank 0..ranks-1 and returns when all have ended. `body` must not throw.
  virtual void run(std::int64_t ranks, const std::function<void(std::int64_t)>& body) = 0;

  /// Suspends the calling rank until unpark(rank). An earlier unpark is not lost (one permit, as
  /// with LockSupport). Spurious returns are allowed: callers re-check their condition.
  virtual void park() = 0;
  /// Makes `rank` runnable. From any rank or thread; of a running or ended rank it is harmless.
  virtual void unpark(std::int64_t rank) = 0;
  /// unpark() of each.
  virtual void unpark_all(std::span<const std::int64_t> ranks) {
    for (const std::int64_t rank : ranks) unpark(rank);
  }
  /// Lets other runnable ranks run first. Returns at once when there are none.
  virtual void yield() = 0;
  /// A point at which a scheduler that explores interleavings may let other ranks run first; does
  /// nothing in other schedulers. Backends call it where ranks of a cluster would drift apart:
  /// before and after they publish a call.
  void interleave() {
    if (explores_) explore();
  }
  /// Runs a wait outside the library (a file, a socket) so that other ranks may go on meanwhile.
  virtual void block_on(const std::function<void()>& wait) = 0;

  /// Called, on no rank, when ranks are still alive and all of them are parked: nobody can advance.
  /// The handler must unpark at least one rank (normally after marking the world as failed).
  void on_stall(std::function<void()> handler) { stall_handler_ = std::move(handler); }

  /// The rank that runs on this thread, or -1 outside of run().
  virtual std::int64_t current() const = 0;

  /// While run() lasts: on how many OS threads ranks run, and on which of them `rank` does.
  std::int64_t thread_count() const { return thread_count_; }
  virtual std::int64_t thread_of(std::int64_t rank) const = 0;

 protected:
  virtual void explore() {}

  bool explores_ = false;
  std::function<void()> stall_handler_;
  std::int64_t thread_count_ = 1;  ///< set before a rank starts
};

}  // namespace shardlab
