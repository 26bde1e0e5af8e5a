// group_communicator.h - the parts of a communicator between processes that do not depend on the
// way of its data: the place of a rank in a group, and of its calls among those of other ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/process/entered_call.h"
#include "comm/communicator.h"

namespace shardlab::process {

/// The place of this rank in a group.
struct GroupPlace {
  std::vector<std::int64_t> ranks;  ///< global, in group order
  std::int64_t rank = 0;            ///< in the group
  std::string name;
  std::int64_t number = 0;  ///< unique among groups that share a rank
};

/// The input of a rank to a split.
struct Wish {
  std::int64_t color, key;
  std::int64_t next;  ///< the number that its next group may have
};

class GroupCommunicator : public Communicator {
 public:
  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(ranks_.size()); }
  std::span<const std::int64_t> ranks() const override { return ranks_; }
  const std::string& name() const override { return name_; }

 protected:
  explicit GroupCommunicator(const GroupPlace& place)
      : rank_(place.rank),
        ranks_(place.ranks),
        name_(place.name),
        number_(place.number),
        ways_(number_, rank_, ranks_) {}

  std::int64_t number() const { return number_; }
  const Ways& ways() const { return ways_; }
  /// The call that this rank enters next, as the others hear of it.
  Entrance entrance(const backends::Call& call, bool waits);
  /// The new group with this rank, by the wishes of all ranks of this one: its number is the
  /// largest of theirs. `members`: their ranks here, in its order. Without ranks for a negative
  /// colour.
  GroupPlace split_by(std::span<const Wish> wishes, std::string name,
                      std::vector<std::size_t>& members) const;

 private:
  const std::int64_t rank_;
  const std::vector<std::int64_t> ranks_;
  const std::string name_;
  const std::int64_t number_;
  std::uint64_t sequence_ = 0;  ///< calls entered, but messages
  Ways ways_;
};

}  // namespace shardlab::process
