// rank_mutex.h - what guards data that only ranks touch.
#pragma once

#include <mutex>

#include "base/scheduler.h"

namespace shardlab::threads {

/// A mutex among ranks, not held across a switch. While they share one OS thread nobody comes in
/// between, and locking costs a branch: a meeting of many ranks locks as many times. For ranks and
/// for the scheduler's stall handler, which then runs on the same thread.
class RankMutex {
 public:
  /// `scheduler` outlives the mutex.
  explicit RankMutex(const Scheduler& scheduler) : scheduler_(scheduler) {}
  void lock() {
    if (scheduler_.thread_count() > 1) mutex_.lock();
  }
  void unlock() {
    if (scheduler_.thread_count() > 1) mutex_.unlock();
  }

 private:
  const Scheduler& scheduler_;
  std::mutex mutex_;
};

}  // namespace shardlab::threads
