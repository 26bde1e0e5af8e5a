// An operation is complete when all that belong together are posted and at their turn: at the head
// of their rank's queue, or at once without queues. Completion moves queues on, which may complete
// more: a list of work in place of recursion.
#include "backends/shared/traffic.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace shardlab {

using Kind = Operation::Kind;

Traffic::Traffic(Transport transport, std::int64_t buffers)
    : transport_(transport),
      buffers_(transport == Transport::kBuffered ? std::numeric_limits<std::int32_t>::max()
                                                 : buffers) {}

std::int32_t Traffic::add_group(std::vector<std::int64_t> ranks) {
  groups_.push_back({.ranks = std::move(ranks), .entered = {}, .rounds = {}});
  return static_cast<std::int32_t>(groups_.size()) - 1;
}

Traffic::Way Traffic::way_of(std::int32_t rank, const Operation& what) {
  const bool sends = what.kind == Kind::kSend;
  return {sends ? rank : what.peer, sends ? what.peer : rank, what.group, what.tag};
}

std::int32_t Traffic::queue_of(std::int32_t rank, const Operation& what) {
  const bool collective = what.kind == Kind::kCollective;
  // A rank that waits for each batch still has the order of collectives inside of one.
  const bool waits = transport_ == Transport::kBlocking;
  if (waits ? !collective : !has_queues()) return -1;
  if (collective && transport_ == Transport::kPairQueue) return -1;
  const std::int32_t group = transport_ >= Transport::kOneQueue ? -1 : what.group;
  const std::int32_t peer = transport_ == Transport::kPairQueue ? what.peer : -1;
  const auto [place, fresh] =
      queue_numbers_.try_emplace({rank, group, peer}, static_cast<std::int32_t>(queues_.size()));
  if (fresh) queues_.emplace_back();
  return place->second;
}

Traffic::Id Traffic::post(std::int32_t rank, std::span<const Operation> batch, bool joins) {
  const auto first = static_cast<Id>(posted_.size());
  std::int32_t& number = last_post_[rank];
  if (!joins) number = posts_++;
  for (const Operation& what : batch) {
    const auto id = static_cast<Id>(posted_.size());
    const std::int32_t queue = queue_of(rank, what);
    posted_.push_back({.what = what, .rank = rank, .post = number, .queue = queue});
    if (queue >= 0) queues_[static_cast<std::size_t>(queue)].all.push_back(id);
    enter(id);
  }
  for (auto id = first; id < static_cast<Id>(posted_.size()); ++id) {
    at(id).queue >= 0 ? advance(at(id).queue) : comes_to_turn(id);
  }
  settle();
  return first;
}

void Traffic::enter(Id id) {
  Posted& one = at(id);
  if (one.what.kind != Kind::kCollective) return enter_message(id, one);
  Group& group = groups_[static_cast<std::size_t>(one.what.group)];
  one.place = group.entered[one.rank]++;
  const auto place = static_cast<std::size_t>(one.place);
  if (place >= group.rounds.size()) group.rounds.resize(place + 1);
  group.rounds[place].members.push_back(id);
}

void Traffic::enter_message(Id id, Posted& one) {
  Channel& channel = channels_[way_of(one.rank, one.what)];
  std::vector<Id>& own = one.what.kind == Kind::kSend ? channel.sends : channel.receives;
  one.place = static_cast<std::int32_t>(own.size());
  own.push_back(id);
}

Traffic::Id Traffic::partner(const Posted& one) const {
  const Channel& channel = channels_.at(way_of(one.rank, one.what));
  const std::vector<Id>& others = one.what.kind == Kind::kSend ? channel.receives : channel.sends;
  const auto place = static_cast<std::size_t>(one.place);
  return place < others.size() ? others[place] : -1;
}

void Traffic::advance(std::int32_t number) {
  Queue& queue = queues_[static_cast<std::size_t>(number)];
  while (queue.front < queue.all.size() && complete(queue.all[queue.front])) ++queue.front;
  bool collective = false;  // one of the batch is not complete
  for (std::size_t i = queue.front; i < queue.all.size(); ++i) {
    const Id id = queue.all[i];
    if (at(id).post != at(queue.all[queue.front]).post) break;
    if (at(id).complete) continue;
    const bool waits = at(id).what.kind == Kind::kCollective && std::exchange(collective, true);
    if (!waits && !at(id).at_turn) comes_to_turn(id);
  }
}

// Without queues a receive only needs its send, and a send may have a buffer.
void Traffic::comes_to_turn(Id id) {
  Posted& one = at(id);
  one.at_turn = true;
  if (one.what.kind == Kind::kCollective) {
    const Group& group = groups_[static_cast<std::size_t>(one.what.group)];
    Round& round = groups_[static_cast<std::size_t>(one.what.group)]
                       .rounds[static_cast<std::size_t>(one.place)];
    if (++round.at_turn < group.ranks.size()) return;
    for (const Id member : round.members) completes(member);
    return;
  }
  const Id other = partner(one);
  if (has_queues()) {
    if (other < 0 || !at(other).at_turn) return;
    completes(id);
    completes(other);
    return;
  }
  const Channel& channel = channels_.at(way_of(one.rank, one.what));
  if (one.what.kind == Kind::kSend) {
    if (static_cast<std::int64_t>(channel.receives.size()) + buffers_ > one.place) completes(id);
    if (other >= 0) completes(other);
    return;
  }
  if (other >= 0) completes(id);
  const std::int64_t freed = one.place + buffers_;
  if (freed < static_cast<std::int64_t>(channel.sends.size())) {
    completes(channel.sends[static_cast<std::size_t>(freed)]);
  }
}

void Traffic::completes(Id id) {
  if (std::exchange(at(id).complete, true)) return;
  completed_.push_back(id);
}

void Traffic::settle() {
  while (settled_ < completed_.size()) {
    const std::int32_t queue = at(completed_[settled_++]).queue;
    if (queue >= 0) advance(queue);
  }
}

std::vector<Traffic::Id> Traffic::take_completed() {
  settled_ = 0;
  return std::exchange(completed_, {});
}

Blocker Traffic::blocker(Id id) const {
  const Posted& one = at(id);
  if (!one.at_turn) {
    const Queue& queue = queues_[static_cast<std::size_t>(one.queue)];
    std::size_t head = queue.front;
    const auto beside = [&](const Posted& other) {
      return other.post == one.post && other.what.kind != Kind::kCollective;
    };
    while (complete(queue.all[head]) || beside(at(queue.all[head]))) ++head;
    return {.rank = one.rank, .operation = queue.all[head], .behind = id, .missing = {}};
  }
  if (one.what.kind != Kind::kCollective) {
    const Id other = partner(one);
    if (other >= 0 && !at(other).at_turn) return blocker(other);
    const Channel& channel = channels_.at(way_of(one.rank, one.what));
    const bool sends = one.what.kind == Kind::kSend;
    const auto there = static_cast<std::int64_t>((sends ? channel.receives : channel.sends).size());
    Operation missing = one.what;
    missing.kind = sends ? Kind::kReceive : Kind::kSend;
    missing.peer = one.rank;
    return {one.what.peer, -1, -1, missing, one.place + 1 - there - (sends ? buffers_ : 0)};
  }
  const Group& group = groups_[static_cast<std::size_t>(one.what.group)];
  for (const std::int64_t member : group.ranks) {
    const auto rank = static_cast<std::int32_t>(member);
    const auto entered = group.entered.find(rank);
    const std::int32_t count = entered == group.entered.end() ? 0 : entered->second;
    if (count <= one.place) return {rank, -1, -1, one.what, one.place + 1 - count};
  }
  const Round& round = group.rounds[static_cast<std::size_t>(one.place)];
  const auto late = std::ranges::find_if(round.members, [&](Id i) { return !at(i).at_turn; });
  return blocker(*late);
}

Traffic::Id Traffic::creation(std::int32_t rank, std::span<const Operation> batch) {
  if (!lazy_ || !has_queues()) return -1;
  for (const Operation& what : batch) {
    const bool pair = transport_ == Transport::kPairQueue && what.kind != Kind::kCollective;
    const std::int32_t low = pair ? std::min(rank, what.peer) : -1;
    const std::int32_t high = pair ? std::max(rank, what.peer) : -1;
    auto [made, fresh] = made_.try_emplace({what.group, low, high}, 0);
    if (fresh) {
      made->second = add_group(pair ? std::vector<std::int64_t>{low, high}
                                    : groups_[static_cast<std::size_t>(what.group)].ranks);
    }
    if (groups_[static_cast<std::size_t>(made->second)].entered.contains(rank)) continue;
    const Operation create{.kind = Kind::kCollective, .group = made->second};
    return post(rank, {&create, 1});
  }
  return -1;
}

}  // namespace shardlab
