// world.h - what all groups of one run share: the scheduler, who waits where, and the failure.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backends/threads/group.h"
#include "base/scheduler.h"
#include "comm/backend.h"

namespace shardlab::threads {

/// Where a rank waits. On its stack.
struct Waiting {
  const Group* group;
  std::uint64_t sequence;  ///< of the round
  const Call* call;
};

/// Thread-safe.
class World final : public Backend {
 public:
  World(std::int64_t ranks, Scheduler& scheduler);
  ~World() override;

  std::unique_ptr<Communicator> world(std::int64_t rank) override;
  void rank_ended(std::int64_t rank) override;
  void rank_failed(std::int64_t rank, const Error& cause) override;
  const Verdict* verdict() const override;

  Scheduler& scheduler() { return scheduler_; }
  Group& add_group(std::vector<std::int64_t> ranks, std::string name);
  void set_waiting(std::int64_t rank, const Waiting* waiting) {
    status_[static_cast<std::size_t>(rank)].waiting.store(waiting, std::memory_order_release);
  }

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// What every rank throws once the world has failed.
  const Error& failure() const { return *failure_; }
  /// The first failure counts; wakes all ranks.
  void fail_with(Verdict verdict, const Error* cause);

 private:
  struct Status {
    std::atomic<const Waiting*> waiting{nullptr};
    std::atomic<RankReport::State> state{RankReport::State::kRuns};
  };
  void stalled();
  std::vector<RankReport> reports() const;

  Scheduler& scheduler_;
  const std::int64_t ranks_;
  std::unique_ptr<Status[]> status_;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // guards the following until failed_ is set
  std::optional<Verdict> verdict_;
  std::optional<Error> failure_;
  std::vector<std::unique_ptr<Group>> groups_;
  Group* everyone_ = nullptr;
};

}  // namespace shardlab::threads
