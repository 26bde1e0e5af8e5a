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

#include "backends/shared/traffic.h"
#include "backends/threads/group.h"
#include "backends/threads/threads.h"
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
  /// Expires when the world is over, which results that were not waited for outlive.
  std::weak_ptr<const int> life() const { return life_; }
  Group& add_group(std::vector<std::int64_t> ranks, std::string name);
  /// The way of messages under one tag from one rank of `around` to another, group ranks: a group
  /// of the sender, 0, and the receiver, 1. Made when it is first used.
  Group& channel(const Group& around, std::int32_t from, std::int32_t to, std::int32_t tag);

  /// Between the two, `rank` is woken when something is sent to it.
  void begin_any(const AnyWait& wait);
  void end_any(std::int64_t rank);
  /// A message was sent to this rank.
  void report_sent(std::int64_t rank);

  // If the world has a fabric, an operation is complete when it says so; else with its round.
  bool has_fabric() const { return traffic_ != nullptr; }
  bool buffers_sends() const { return has_fabric() && fabric_.transport == Transport::kBuffered; }
  void use(const Fabric& fabric);
  /// Posts the rank's part of a call; the rank may have to wait before.
  Traffic::Id post(Group& group, std::int64_t rank, const Call& call, bool any);
  /// A rank asks whether it is complete.
  bool complete(Traffic::Id id);
  /// The rank that posted it waits; to be called before it waits for the round.
  void report_wait(Traffic::Id id);
  void await(Traffic::Id id);
  /// The sender that a receive from any is to take, of those that have sent; -1: none yet.
  std::int32_t sender_for(std::int64_t rank, const std::vector<std::int32_t>& senders);

  /// Counts asynchronous calls whose round is not over.
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
  const std::shared_ptr<const int> life_ = std::make_shared<const int>();
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
  /// Rounds of all ranks that receive from any: each waits for all others.
  std::vector<OpenRound> any_rounds() const;
  std::vector<RankReport> reports() const;
  std::optional<Verdict> torn_verdict() const;
  /// One flag for each rank.
  std::vector<bool> stuck() const;
  bool has_ended(std::int64_t rank) const;
  // With the fabric's mutex held.
  void posted(Traffic::Id id, const Group& group, const Call& call);
  void log_call(Traffic::Id id, const Group& group, const Call& call, bool joins, bool any);
  void wake_completed();
  /// Calls that do not fit never complete, though they have met.
  void leave_open(const Verdict& verdict);
  void log(FabricLog::Event::Kind kind, std::int32_t rank, std::int32_t call);
  void await_batch(std::int64_t rank);
  std::string action(Traffic::Id id) const;
  void report_fabric(std::vector<RankReport>& by_rank) const;
  /// Waits for all that the rank has posted.
  void settle_fabric(std::int64_t rank);
  /// When nobody can go on: a receive from any takes a message. False: none can.
  bool choose();

  /// The place of an operation.
  struct Posted {
    CollectiveKind kind = CollectiveKind::kBarrier;
    const Group* group = nullptr;
    SourcePosition position;
    std::int32_t call = -1;  ///< in the log
  };
  /// The state of a rank towards the fabric.
  struct Poster {
    Traffic::Id waits_for = -1;
    Traffic::Id first = 0;  ///< of the last batch
    std::uint32_t batch = 0;
    std::int32_t sender = -1;                ///< chosen for a receive from any
    std::vector<std::int32_t> senders = {};  ///< that it could take
  };

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
  Fabric fabric_;
  mutable std::mutex fabric_mutex_;  // guards the following
  std::unique_ptr<Traffic> traffic_;
  std::map<const Group*, std::int32_t> fabric_groups_;
  std::vector<Posted> posted_;
  std::vector<Poster> posters_;
};

}  // namespace shardlab::threads
