// traffic.h - the operations that ranks have posted, and when each is complete on a transport. Pure
// bookkeeping: no data, no clock, no rank waits here. A live world and the prover ask the same
// object.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "backends/shared/transport.h"

namespace shardlab {

/// A rank's part of a message or of a collective.
struct Operation {
  enum class Kind : std::uint8_t { kSend, kReceive, kCollective };
  Kind kind = Kind::kCollective;
  std::int32_t group = 0;  ///< by Traffic::add_group
  std::int32_t peer = -1;  ///< of a message: the other rank, in the world
  std::int32_t tag = 0;    ///< of a message

  bool operator==(const Operation&) const = default;
};

/// The cause why an operation is not complete: another one, or its absence.
struct Blocker {
  std::int32_t rank = -1;
  std::int32_t operation = -1;  ///< of the rank, not complete itself; -1: it is not posted
  std::int32_t behind = -1;     ///< of the rank, behind it in a queue
  Operation missing;            ///< the rank has yet to post `further` of these
  std::int64_t further = 0;
};

/// The k-th send from a to b under one group and tag belongs to the k-th receive there, and the
/// k-th collectives of a group belong together. One thread at a time.
class Traffic {
 public:
  /// Operations are numbered in the order in which they are posted.
  using Id = std::int32_t;

  /// `buffers`: sends of a channel that may be complete before they are received; of transports
  /// without queues alone.
  explicit Traffic(Transport transport, std::int64_t buffers = 0);

  Transport transport() const { return transport_; }
  /// `ranks`: of the world. Gives the number of the group.
  std::int32_t add_group(std::vector<std::int64_t> ranks);
  /// Several operations of a rank are a batch: messages stand side by side in a queue, collectives
  /// keep their order. Gives the first one's number; the others follow. `joins`: they belong to the
  /// rank's last batch.
  Id post(std::int32_t rank, std::span<const Operation> batch, bool joins = false);
  bool complete(Id id) const { return at(id).complete; }
  std::int32_t rank_of(Id id) const { return at(id).rank; }
  const Operation& operation(Id id) const { return at(id).what; }
  /// Complete since the last call.
  std::vector<Id> take_completed();
  /// The reason why an operation is not complete.
  Blocker blocker(Id id) const;

  /// Communicators are made at first use, from here on.
  void make_lazily() { lazy_ = true; }
  /// The creation of the first communicator that the batch needs and that the rank has not entered:
  /// posted now, to be complete before the batch is posted. -1: all are there.
  Id creation(std::int32_t rank, std::span<const Operation> batch);

 private:
  struct Posted {
    Operation what;
    std::int32_t rank = 0;
    std::int32_t post = 0;    ///< equal in a batch
    std::int32_t queue = -1;  ///< -1: none
    std::int32_t place = 0;   ///< in its channel, or its group
    bool at_turn = false, complete = false;
  };
  /// Sender, receiver, group, tag.
  using Way = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t>;
  struct Channel {
    std::vector<Id> sends, receives;
  };
  struct Round {
    std::vector<Id> members;  ///< in the order of posting
    std::size_t at_turn = 0;
  };
  struct Group {
    std::vector<std::int64_t> ranks;
    std::map<std::int32_t, std::int32_t> entered;  ///< collectives, by rank
    std::vector<Round> rounds;
  };
  struct Queue {
    std::vector<Id> all;
    std::size_t front = 0;
  };

  bool has_queues() const {
    return transport_ >= Transport::kPairQueue && transport_ <= Transport::kOneQueue;
  }
  Posted& at(Id id) { return posted_[static_cast<std::size_t>(id)]; }
  const Posted& at(Id id) const { return posted_[static_cast<std::size_t>(id)]; }
  static Way way_of(std::int32_t rank, const Operation& what);
  std::int32_t queue_of(std::int32_t rank, const Operation& what);
  void enter(Id id);
  void enter_message(Id id, Posted& one);
  /// Those at the head of the queue are at their turn.
  void advance(std::int32_t queue);
  void comes_to_turn(Id id);
  void completes(Id id);
  void settle();
  /// The other side of a message; -1: not posted.
  Id partner(const Posted& one) const;

  Transport transport_;
  std::int64_t buffers_;
  bool lazy_ = false;
  std::int32_t posts_ = 0;
  std::map<std::int32_t, std::int32_t> last_post_;  // by rank
  std::vector<Posted> posted_;
  std::vector<Id> completed_;
  std::size_t settled_ = 0;  // of completed_: their queues have advanced
  std::map<Way, Channel> channels_;
  std::vector<Group> groups_;
  std::vector<Queue> queues_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t> queue_numbers_;
  // Communicators made at first use have a group, found by that of their operations and the pair.
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t> made_;
};

}  // namespace shardlab
