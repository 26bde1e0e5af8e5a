// single_scheduler.h - one rank in this process, on the calling thread; the others are elsewhere.
#pragma once

#include "base/scheduler.h"

namespace shardlab {

/// For backends with a process per rank: waiting for other processes is left to the backend.
class SingleScheduler final : public Scheduler {
 public:
  /// Runs rank `rank` of any number of ranks.
  explicit SingleScheduler(std::int64_t rank) : rank_(rank) {}

  void run(std::int64_t ranks, const std::function<void(std::int64_t)>& body) override;
  /// Returns at once: there is no other rank here that could wake this one.
  void park() override {}
  void unpark(std::int64_t rank) override { static_cast<void>(rank); }
  void yield() override {}
  void block_on(const std::function<void()>& wait) override { wait(); }
  std::int64_t current() const override { return running_ ? rank_ : -1; }
  std::int64_t thread_of(std::int64_t rank) const override {
    static_cast<void>(rank);
    return 0;
  }

 private:
  const std::int64_t rank_;
  bool running_ = false;
};

}  // namespace shardlab
