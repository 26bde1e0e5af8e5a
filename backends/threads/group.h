// group.h - an ordered set of ranks and its rounds. Shared by its members; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/shared/meeting.h"
#include "backends/threads/crew.h"
#include "backends/threads/outlook.h"

namespace shardlab::threads {

// The guard of data that only ranks touch.

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

// One collective of one group: the table in which its ranks publish their calls.

using backends::Call;

/// A pending call, which must live until its round is over.
struct Kept {
  std::size_t rank = 0;  ///< in the group
  Ref<Counted> call;
};

/// Guarded by its group's mutex. While it is computed, its calls belong to the rank that computes.
struct Round {
  std::uint64_t sequence = 0;
  std::size_t arrived = 0;
  bool computing = false;
  bool torn = false;                     ///< all have entered, but their calls do not fit
  std::vector<Call*> calls;              ///< by group rank; null: has not entered
  std::vector<std::uint8_t> blocked;     ///< by group rank: must be woken
  std::vector<Kept> kept;                ///< those of `calls` that are asynchronous
  Ref<const backends::Failure> failure;  ///< abandoned: it will never be completed

  void reset(std::uint64_t next, std::size_t size) {
    sequence = next;
    arrived = 0;
    computing = torn = false;
    calls.assign(size, nullptr);
    blocked.assign(size, 0);
    failure = nullptr;
  }
};

class World;
class Group;

/// The input of a split, and the group that it gives.
struct GroupSplit : backends::SplitPart {
  Group* group = nullptr;  ///< null: in none
  std::int64_t group_rank = 0;
};

/// Whether the caller will wait at once or later.
enum class Entry : std::uint8_t { kBlocks, kGoesOn };

/// Rounds are numbered by each member's own count of its calls on the group, so that ranks need not
/// agree on anything before they enter.
class Group {
 public:
  /// `ranks`: global, in group order.
  Group(World& world, std::vector<std::int64_t> ranks, std::string name);
  /// Rounds that are still open fail.
  ~Group();
  Group& operator=(Group&&) = delete;

  World& world() const { return world_; }
  const std::vector<std::int64_t>& ranks() const { return ranks_; }
  const std::string& name() const { return name_; }

  /// Publishes the call of group rank `rank` in round `sequence`. The last rank to enter checks
  /// that all calls fit together and does the work for all. `keep` is held until the round is over.
  void enter(std::size_t rank, std::uint64_t sequence, Call& call, Entry entry, Ref<Counted> keep);
  /// Returns when the call is over. Throws what it failed with, or the world's failure. After the
  /// end of the group, calls are over.
  void await(std::size_t rank, std::uint64_t sequence, Call& call, Entry entry);

  /// Whether the message of a channel with this number has been sent.
  bool sent(std::uint64_t sequence);
  /// Awaits all pending calls of global rank `rank`, which need not be a member.
  void settle(std::int64_t rank);

  /// Adds the rounds that some ranks have not entered yet.
  void add_open(std::vector<OpenRound>& rounds) const;
  /// Fills in what the ranks do that are blocked here.
  void report(std::vector<RankReport>& by_rank) const;
  /// The verdict of the first open round whose calls cannot meet: kind, culprits and cause, and the
  /// state of its ranks when all have entered.
  std::optional<Verdict> torn_verdict() const;

 private:
  /// The first pending call of a group rank that is not over.
  struct Unsettled {
    std::uint64_t sequence = 0;
    Call* call = nullptr;  ///< null: there is none
    Ref<Counted> keep;
  };
  Unsettled unsettled(std::size_t rank);
  Round& round_of(std::uint64_t sequence) {
    const std::size_t index = sequence - first_open_;
    return index < open_.size() ? *open_[index] : open_round(sequence);
  }
  Round& open_round(std::uint64_t sequence);
  /// A rank is missing, or the group has a torn round, which none of its later ones gets past.
  bool stays_open(const Round& round) const { return torn_ || round.arrived < ranks_.size(); }
  /// With the mutex held, or by the rank that completes the round.
  backends::Meeting meeting(const Round& round) const {
    return {ranks_, name_, round.sequence, round.calls};
  }
  void complete(Round& round);
  /// All have entered, but their calls do not fit: no rank continues. `rank` was last.
  void tear(Round& round, std::size_t rank, Entry entry);
  void wake(const Round& round);
  /// In a failed world: abandons a round that will never be completed. False when it will.
  bool abandon(std::uint64_t sequence, Call& call);
  void perform(const Round& round);
  void split(std::span<Call* const> calls);

  World& world_;
  const std::vector<std::int64_t> ranks_;
  const std::string name_;
  Crew crew_;
  mutable RankMutex mutex_;                      // guards the following
  std::vector<std::unique_ptr<Round>> open_;     // by sequence number, without gaps
  std::vector<std::unique_ptr<Round>> resting_;  // over, to be used again
  std::uint64_t first_open_ = 0;
  bool torn_ = false;  // a round is
};

}  // namespace shardlab::threads
