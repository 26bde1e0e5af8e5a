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

/// Thread-safe.
class World final : public Backend {
 public:
  World(std::int64_t ranks, Scheduler& scheduler);
  ~World() override;

  std::unique_ptr<Communicator> world(std::int64_t rank) override;
  void settle(std::int64_t rank) override;
  void rank_ended(std::int64_t rank) override;
  void rank_failed(std::int64_t rank, const Error& cause) override;
  const Verdict* verdict() const override;

  Scheduler& scheduler() { return scheduler_; }
  Group& add_group(std::vector<std::int64_t> ranks, std::string name);

  /// Of asynchronous calls whose round is not over.
  void count_pending(std::int64_t change) { pending_.fetch_add(change); }
  /// An asynchronous call of `rank` failed; it has not necessarily been told.
  void failed_unheard(std::int64_t rank) { status_[static_cast<std::size_t>(rank)].unheard = true; }

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// What every rank throws once the world has failed.
  const Ref<const backends::Failure>& failure() const { return failure_; }
  /// While some ranks go on: fails the world when others are stuck, or have met in calls that
  /// cannot meet. Does nothing where another rank looks already.
  void look();
  /// The first failure counts. All ranks must be woken then.
  void note_failure(Verdict verdict, const Error* cause);
  void wake_all();

 private:
  struct Status {
    std::atomic<RankReport::State> state{RankReport::State::kRuns};
    std::atomic<bool> unheard{false};
  };
  void stalled();
  void fail_with(Verdict verdict, const Error* cause) {
    note_failure(std::move(verdict), cause);
    wake_all();
  }
  std::vector<Group*> groups() const;
  std::vector<RankReport> reports() const;
  std::optional<Verdict> torn_verdict() const;
  /// By rank.
  std::vector<bool> stuck() const;

  Scheduler& scheduler_;
  const std::int64_t ranks_;
  std::unique_ptr<Status[]> status_;
  std::atomic<std::int64_t> pending_{0};
  std::atomic<bool> failed_{false};
  std::mutex looking_;
  mutable std::mutex mutex_;  // guards the following until failed_ is set
  std::optional<Verdict> verdict_;
  Ref<const backends::Failure> failure_;
  std::vector<std::unique_ptr<Group>> groups_;
  Group* everyone_ = nullptr;
};

}  // namespace shardlab::threads
