// A blocking call is on the stack of its rank and is entered into the group's round by pointer; an
// asynchronous one copies what it needs and is kept by the round and by the tensor of its result.
#include "backends/threads/communicator.h"

#include <map>
#include <tuple>
#include <utility>

#include "backends/threads/world.h"
#include "tensor/device.h"
#include "tensor/pending_storage.h"

namespace shardlab::threads {

namespace {

// One rank's next call on a group.
struct Seat {
  Group& group;
  std::size_t rank;  ///< in the group
  std::uint64_t sequence;
};

// An asynchronous call. Its round holds it until it is over, its tensor until it is waited for.
class PendingCall final : public Work {
 public:
  PendingCall(const Seat& seat, const Call& call, Traffic::Id posted)
      : seat_(seat),
        world_lives_(seat.group.world().life()),
        posted_(posted),
        call_(call.kind),
        x_(call.x != nullptr ? call.x->snapshot() : Tensor()),
        expected_(call.expected != nullptr ? *call.expected : TensorMeta()),
        lengths_(call.lengths.begin(), call.lengths.end()),
        concat_values_(call.concat_lengths().begin(), call.concat_lengths().end()),
        concat_lengths_(concat_values_) {
    backends::copy_plain(call, call_);
    if (call.x != nullptr) call_.x = &x_;
    if (call.expected != nullptr) call_.expected = &expected_;
    call_.lengths = lengths_;
    if (call.kind == CollectiveKind::kAllToAll) call_.part = &concat_lengths_;
    call_.device = call.device;
  }

  Ref<Storage> start() {
    seat_.group.enter(seat_.rank, seat_.sequence, call_, Entry::kGoesOn, Ref<Counted>(this));
    auto storage = make_ref<PendingStorage>();
    storage_ = storage.get();
    storage->await(Ref<Work>(this));
    return storage;
  }

  // Called by the Storage, so it is alive. A world that has ended left the result, or the reason
  // why there is none.
  void wait() override {
    if (world_lives_.expired()) {
      if (call_.failure) throw Error(call_.failure->error);
      return storage_->complete(std::move(call_.result));
    }
    World& world = seat_.group.world();
    world.report_wait(posted_);
    if (goes_on()) return storage_->complete({});
    seat_.group.await(seat_.rank, seat_.sequence, call_, Entry::kGoesOn);
    world.await(posted_);
    storage_->complete(std::move(call_.result));
  }
  bool done() const override {
    if (world_lives_.expired()) return true;
    World& world = seat_.group.world();
    world.scheduler().yield();
    return world.complete(posted_) && (goes_on() || call_.over());
  }

 private:
  // A buffered send is complete before its round is over.
  bool goes_on() const {
    return call_.kind == CollectiveKind::kSend && seat_.group.world().buffers_sends();
  }

  const Seat seat_;
  const std::weak_ptr<const int> world_lives_;
  const Traffic::Id posted_;
  Call call_;
  const Tensor x_;
  const TensorMeta expected_;
  const std::vector<std::int64_t> lengths_;
  const std::vector<std::int64_t> concat_values_;
  const Lengths concat_lengths_;
  Storage* storage_ = nullptr;
};

// Aligned, so that the fields at its beginning, which every collective reads, are on one cache
// line.
class alignas(32) ThreadsCommunicator final : public Communicator {
 public:
  ThreadsCommunicator(Group& group, std::int64_t rank) : group_(group), rank_(rank) {}

  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(group_.ranks().size()); }
  std::span<const std::int64_t> ranks() const override { return group_.ranks(); }
  const std::string& name() const override { return group_.name(); }

  Tensor perform(Call& call) override;
  void meet(Call& call) override { enter_and_wait(group_, own_rank(), sequence_++, call); }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key,
                                      std::string name) override;
  void abort(const Error& reason) override;

 private:
  World& world() const { return group_.world(); }
  std::size_t own_rank() const { return static_cast<std::size_t>(rank_); }
  Seat seat_of(const Call& call) {
    if (is_message(call.kind)) return seat_on_channel(call);
    return {group_, own_rank(), sequence_++};
  }
  [[gnu::noinline]] Seat seat_on_channel(const Call& call);
  struct Channel {
    Group* group = nullptr;
    std::uint64_t sent = 0, received = 0;
  };
  Channel& channel(std::int32_t from, std::int32_t to, std::int32_t tag);
  /// The first rank of the group with a message to this rank that was not received, once there is
  /// one.
  std::int32_t any_sender(const Call& call);
  /// A seat in its parts, which need no room on the stack.
  void enter_and_wait(Group& group, std::size_t rank, std::uint64_t sequence, Call& call);
  Traffic::Id post(const Call& call) {
    if (!world().has_fabric()) return -1;
    return world().post(group_, group_.ranks()[own_rank()], call, std::exchange(any_, false));
  }
  /// A separate function, so that ranks that only meet need little of their stacks: a rendezvous of
  /// many touches them all.
  [[gnu::noinline]] Tensor give_tensor(Call& call);

  Group& group_;
  const std::int64_t rank_;
  bool any_ = false;  // the call that is posted next was a receive from any
  std::uint64_t sequence_ = 0;
  // Messages of this rank, by sender, receiver and tag.
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, Channel> channels_;
};

// The last rank to enter made the results, counted on no rank's account; from here on they count on
// this rank's. A separate function, as give_tensor() is.
[[gnu::noinline]] void take_results(backends::BatchPart& part) {
  for (Tensor& x : part.received) {
    if (x.defined()) x = Tensor(make_ref<Storage>(x.storage()->buffer()), x.meta());
  }
}

ThreadsCommunicator::Channel& ThreadsCommunicator::channel(std::int32_t from, std::int32_t to,
                                                           std::int32_t tag) {
  Channel& found = channels_[{from, to, tag}];
  if (found.group == nullptr) found.group = &world().channel(group_, from, to, tag);
  return found;
}

Seat ThreadsCommunicator::seat_on_channel(const Call& call) {
  const bool sends = call.kind == CollectiveKind::kSend;
  const auto own = static_cast<std::int32_t>(rank_);
  Channel& way = sends ? channel(own, call.to, call.tag) : channel(call.from, own, call.tag);
  return {*way.group, sends ? 0U : 1U, sends ? way.sent++ : way.received++};
}

std::int32_t ThreadsCommunicator::any_sender(const Call& call) {
  const auto own = static_cast<std::int32_t>(rank_), ranks = static_cast<std::int32_t>(size());
  const std::int64_t global = group_.ranks()[static_cast<std::size_t>(rank_)];
  const auto find = [&] {
    std::vector<std::int32_t> senders;
    for (std::int32_t from = 0; from < ranks; ++from) {
      Channel& way = channel(from, own, call.tag);
      if (way.group->sent(way.received)) senders.push_back(from);
    }
    const std::int32_t sender = world().sender_for(global, senders);
    return sender < 0 ? ranks : sender;
  };
  world().scheduler().interleave();
  world().begin_any({&group_, global, &call});
  std::int32_t from = find();
  for (; from == ranks && !world().failed(); from = find()) world().scheduler().park();
  world().end_any(global);
  if (from == ranks) throw Error(world().failure()->error);
  return from;
}

void ThreadsCommunicator::enter_and_wait(Group& group, std::size_t rank, std::uint64_t sequence,
                                         Call& call) {
  Scheduler& scheduler = world().scheduler();
  scheduler.interleave();
  const Traffic::Id posted = post(call);
  group.enter(rank, sequence, call, Entry::kBlocks, nullptr);
  world().report_wait(posted);
  group.await(rank, sequence, call, Entry::kBlocks);
  world().await(posted);
  if (call.kind == CollectiveKind::kBatch) take_results(*std::get<backends::BatchPart*>(call.part));
  scheduler.interleave();
}

Tensor ThreadsCommunicator::perform(Call& call) {
  if (call.kind == CollectiveKind::kRecv && call.from < 0) {
    any_ = true;
    call.from = any_sender(call);
  }
  if (gives_tensor(call.kind)) return give_tensor(call);
  meet(call);
  return {};
}

Tensor ThreadsCommunicator::give_tensor(Call& call) {
  TensorMeta meta = result_meta(call, rank_);
  const bool goes_on = call.kind == CollectiveKind::kSend && world().buffers_sends();
  if (call.issue == Issue::kAsync || goes_on) {
    world().scheduler().interleave();
    const Traffic::Id posted = post(call);
    // It waits, if for nothing: on other fabrics the program stops here.
    if (call.issue != Issue::kAsync) world().report_wait(posted);
    const auto pending = make_ref<PendingCall>(seat_of(call), call, posted);
    Tensor result(pending->start(), std::move(meta));
    world().scheduler().interleave();
    return result;
  }
  const Seat seat = seat_of(call);
  enter_and_wait(seat.group, seat.rank, seat.sequence, call);
  return Tensor(make_ref<Storage>(std::move(call.result)), std::move(meta));
}

std::unique_ptr<Communicator> ThreadsCommunicator::split(std::int64_t color, std::int64_t key,
                                                         std::string name) {
  Call call(CollectiveKind::kSplit);
  begin(call, nullptr);
  GroupSplit mine;
  mine.color = color;
  mine.key = key;
  mine.name = name;
  call.part = &mine;
  meet(call);
  if (mine.group == nullptr) return nullptr;
  return make_communicator(*mine.group, mine.group_rank);
}

void ThreadsCommunicator::abort(const Error& reason) {
  world().abort(group_.ranks()[static_cast<std::size_t>(rank_)], reason);
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(Group& group, std::int64_t rank) {
  return std::make_unique<ThreadsCommunicator>(group, rank);
}

}  // namespace shardlab::threads
