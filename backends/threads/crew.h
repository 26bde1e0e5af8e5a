// crew.h - the ranks of a group at the work of a large collective: the last one to arrive shares it
// out, and those that wait on other OS threads help.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>

#include "base/scheduler.h"

namespace shardlab::threads {

/// Thread-safe. One piece of work at a time.
/// Ranks help only while they wait in a collective of the same group.
class Crew {
 public:
  /// `ranks`: global; outlives the crew, like the scheduler.
  Crew(Scheduler& scheduler, std::span<const std::int64_t> ranks)
      : scheduler_(scheduler), ranks_(ranks) {}

  /// Whether work on so many bytes takes longer than to wake a rank, and one could be woken.
  bool pays(std::int64_t bytes) const;
  /// Runs pieces 0 .. count-1, which do not depend on each other, and returns when all are done.
  /// Throws what one of them threw. On a rank of the group.
  void run(std::size_t count, const std::function<void(std::size_t)>& piece);
  /// Called by a rank that waits: it takes part in the present work.
  void help() {
    if (open_.load(std::memory_order_acquire)) join();
  }

 private:
  struct Job {
    const std::function<void(std::size_t)>& piece;
    std::size_t count;
    std::int64_t owner;
    std::atomic<std::size_t> next{0};
    std::size_t helping = 0;  // guarded by the crew's mutex, like `failure`
    std::exception_ptr failure;
  };
  void join();
  void call_for_help() const;
  void work(Job& job);

  Scheduler& scheduler_;
  const std::span<const std::int64_t> ranks_;
  std::atomic<bool> open_{false};
  std::mutex mutex_;
  Job* job_ = nullptr;
};

}  // namespace shardlab::threads
