// world.h - the state that all groups of one run share: the scheduler, the waiting ranks with their
// places, and the failure. Ranks meet in collectives only, so each of them gets equally far in any
// order of running. A rank that throws, and calls that do not fit, therefore stop only the ranks
// that need them; the world fails once none can continue, for the reason of the lowest rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "backends/threads/group.h"
#include "base/scheduler.h"
#include "comm/backend.h"

namespace shardlab::threads {

/// A rank that receives from the first sender: it waits in no round.
struct AnyWait {
  const Group* group = nullptr;
  std::int64_t rank = 0;  ///< global
  const Call* call = nullptr;
};

/// Thread-safe.
class World final : public Backend {
 public:
  /// `scheduler` runs the ranks and outlives this.
  World(std::int64_t ranks, Scheduler& scheduler);
  ~World() override;

  std::unique_ptr<Communicator> world(std::int64_t rank) override;
  void settle(std::int64_t rank) override;
  void rank_ended(std::int64_t rank) override;
  void rank_failed(std::int64_t rank, const Error& cause) override;
  const Verdict* verdict() const override;

  Scheduler& scheduler() { return scheduler_; }
  Group& add_group(std::vector<std::int64_t> ranks, std::string name);
  /// The way of messages under one tag from one rank of `around` to another, group ranks: a group
  /// of the sender, 0, and the receiver, 1. Made when it is first used.
  Group& channel(const Group& around, std::int32_t from, std::int32_t to, std::int32_t tag);

  /// Between the two, `rank` is woken when something is sent to it.
  void begin_any(const AnyWait& wait);
  void end_any(std::int64_t rank);
  /// A message was sent to this rank.
  void tell_sent(std::int64_t rank);

  /// Of asynchronous calls whose round is not over.
  void count_pending(std::int64_t change) { pending_.fetch_add(change); }

  /// Asked on any thread. Once true it stays true.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// The error that every rank throws once the world has failed.
  const Ref<const backends::Failure>& failure() const { return failure_; }
  /// While some ranks continue: fails the world when several checks have found that others are
  /// stuck, have failed, or have met in calls that do not fit. Does nothing where another rank
  /// checks already.
  void look();
  /// The world fails at once, whatever other ranks do.
  void abort(std::int64_t rank, const Error& reason);

 private:
  struct Status {
    std::atomic<RankReport::State> state{RankReport::State::kRuns};
    std::optional<Error> cause;  ///< of a rank that failed on its own; written before `state`
  };
  /// No rank continues: fails the world for the best of the known reasons.
  void conclude();
  /// For the error of the lowest of these ranks, with all that threw the same.
  void blame(const std::vector<std::int64_t>& failed);
  /// Mismatch or deadlock. `stuck`: by rank; empty: all that wait are.
  Verdict verdict_on_waiting(const std::vector<bool>& stuck) const;
  /// Ranks that have thrown something of their own, ascending.
  std::vector<std::int64_t> failed_ranks() const;
  /// The first failure counts.
  void fail_with(Verdict verdict, const Error* cause);
  std::vector<Group*> groups() const;
  /// Of all ranks that receive from any: as a round that waits for all others.
  std::vector<OpenRound> any_rounds() const;
  std::vector<RankReport> reports() const;
  std::optional<Verdict> torn_verdict() const;
  /// By rank.
  std::vector<bool> stuck() const;
  bool has_ended(std::int64_t rank) const;

  Scheduler& scheduler_;
  const std::int64_t ranks_;
  std::unique_ptr<Status[]> status_;
  std::atomic<std::int64_t> pending_{0};
  std::atomic<std::int64_t> any_count_{0};  // of any_waits_
  std::atomic<std::int64_t> live_;
  std::atomic<bool> failed_{false};
  std::mutex looking_;        // guards the following
  int alarms_ = 0;            // checks that found a rank that cannot continue
  mutable std::mutex mutex_;  // guards the following until failed_ is set
  std::optional<Verdict> verdict_;
  Ref<const backends::Failure> failure_;
  std::vector<std::unique_ptr<Group>> groups_;
  using Way = std::tuple<const Group*, std::int32_t, std::int32_t, std::int32_t>;
  std::map<Way, Group*> channels_;
  std::vector<AnyWait> any_waits_;
  Group* everyone_ = nullptr;
};

}  // namespace shardlab::threads
