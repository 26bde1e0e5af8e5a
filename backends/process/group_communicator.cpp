// Messages are numbered by their ways, all other calls of a group together.
#include "backends/process/group_communicator.h"

#include <algorithm>

namespace shardlab::process {

Entrance GroupCommunicator::entrance(const backends::Call& call, bool waits) {
  if (is_message(call.kind)) return {ways_.next(call), name_, ways_.ends(call), waits};
  return {{number_, sequence_++}, name_, ranks_, waits};
}

GroupPlace GroupCommunicator::split_by(std::span<const Wish> wishes, std::string name,
                                       std::vector<std::size_t>& members) const {
  GroupPlace made{{}, 0, std::move(name), 0};
  const std::int64_t color = wishes[static_cast<std::size_t>(rank_)].color;
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    made.number = std::max(made.number, wishes[i].next);
    if (color >= 0 && wishes[i].color == color) members.push_back(i);
  }
  std::ranges::stable_sort(members, {}, [&](std::size_t i) { return wishes[i].key; });
  for (const std::size_t i : members) {
    if (static_cast<std::int64_t>(i) == rank_) {
      made.rank = static_cast<std::int64_t>(made.ranks.size());
    }
    made.ranks.push_back(ranks_[i]);
  }
  return made;
}

}  // namespace shardlab::process
