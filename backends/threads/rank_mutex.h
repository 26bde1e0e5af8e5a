// rank_mutex.h - the guard of data that only ranks touch.
#pragma once

#include <mutex>

#include "base/scheduler.h"

namespace shardlab::threads {

/// A mutex among ranks, not held across a switch. While they share one OS thread no other rank runs
/// in between, and locking costs a branch: a meeting of many ranks locks as many times. For ranks
/// and for the scheduler's stall handler, which then runs on the same thread.
class RankMutex {
 public:
  /// `scheduler` outlives the mutex.
  explicit RankMutex(const Scheduler& scheduler) : scheduler_(scheduler) {}
  void lock() {
    if (locks()) mutex_.lock();
  }
  void unlock() {
    if (locks()) mutex_.unlock();
  }

 private:
  // The thread sanitizer takes fibers for threads: it must see the guard of data there.
#ifdef __SANITIZE_THREAD__
  static bool locks() { return true; }
#else
  bool locks() const { return scheduler_.thread_count() > 1; }
#endif

  const Scheduler& scheduler_;
  std::mutex mutex_;
};

}  // namespace shardlab::threads
