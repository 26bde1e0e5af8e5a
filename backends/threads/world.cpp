// A world fails for a reason that does not depend on the schedule: it lets every rank continue as
// far as it can, and checks only when none can (conclude(), called by the scheduler when it stalls)
// or, for worlds where some ranks run forever, from time to time (look()). Then failed ranks
// explain it before calls that do not fit, and those before ranks that are missing; of each kind
// the lowest rank is named (B-5 to B-7).
#include "backends/threads/world.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/communicator.h"
#include "tensor/pending_storage.h"

namespace shardlab {

std::unique_ptr<Backend> make_threads_backend(std::int64_t ranks, Scheduler& scheduler) {
  return std::make_unique<threads::World>(ranks, scheduler);
}

}  // namespace shardlab

namespace shardlab::threads {

namespace {

// A blocking call is on the stack of its rank and is entered into the group's round by pointer; an
// asynchronous one copies what it needs and is kept by the round and by the tensor of its result.

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
  return std::make_unique<ThreadsCommunicator>(*mine.group, mine.group_rank);
}

void ThreadsCommunicator::abort(const Error& reason) {
  world().abort(group_.ranks()[static_cast<std::size_t>(rank_)], reason);
}

// Number of checks that may find a stuck rank before the advancing ranks are stopped. Until then
// they may reach a failure of their own, which would be reported in any other order of ranks.
constexpr int kMostAlarms = 3;

}  // namespace

World::World(std::int64_t ranks, Scheduler& scheduler)
    : scheduler_(scheduler),
      ranks_(ranks),
      status_(std::make_unique<Status[]>(static_cast<std::size_t>(ranks))),
      live_(ranks) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  everyone_ = &add_group(std::move(all), "world");
  scheduler_.on_stall([this] { conclude(); });
}

World::~World() { scheduler_.on_stall(nullptr); }

Group& World::add_group(std::vector<std::int64_t> ranks, std::string name) {
  auto group = std::make_unique<Group>(*this, std::move(ranks), std::move(name));
  const std::lock_guard lock(mutex_);
  return *groups_.emplace_back(std::move(group));
}

Group& World::channel(const Group& around, std::int32_t from, std::int32_t to, std::int32_t tag) {
  const std::lock_guard lock(mutex_);
  Group*& found = channels_[{&around, from, to, tag}];
  if (found != nullptr) return *found;
  const auto rank = [&](std::int32_t place) {
    return around.ranks()[static_cast<std::size_t>(place)];
  };
  const std::vector<std::int64_t> both = {rank(from), rank(to)};
  found = groups_.emplace_back(std::make_unique<Group>(*this, both, around.name())).get();
  return *found;
}

void World::begin_any(const AnyWait& wait) {
  const std::lock_guard lock(mutex_);
  any_waits_.push_back(wait);
  ++any_count_;
}

void World::end_any(std::int64_t rank) {
  const std::lock_guard lock(mutex_);
  std::erase_if(any_waits_, [rank](const AnyWait& wait) { return wait.rank == rank; });
  --any_count_;
}

// A rank that waits publishes that before it checks, and a sender has published its call: one of
// them sees the other.
void World::report_sent(std::int64_t rank) {
  if (any_count_ == 0) return;
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(any_waits_, rank, &AnyWait::rank) == any_waits_.end()) return;
  scheduler_.unpark(rank);
}

std::vector<OpenRound> World::any_rounds() const {
  const std::lock_guard lock(mutex_);
  std::vector<OpenRound> rounds;
  for (const AnyWait& wait : any_waits_) {
    OpenRound round{.place = wait.group,
                    .sequence = 0,
                    .blocked = {wait.rank},
                    .missing = wait.group->ranks(),
                    .any = true};
    std::erase(round.missing, wait.rank);
    rounds.push_back(std::move(round));
  }
  return rounds;
}

std::unique_ptr<Communicator> World::world(std::int64_t rank) {
  return std::make_unique<ThreadsCommunicator>(*everyone_, rank);
}

void World::settle(std::int64_t rank) {
  if (has_fabric()) {
    const std::lock_guard lock(fabric_mutex_);
    log(FabricLog::Event::Kind::kEnd, static_cast<std::int32_t>(rank), -1);
  }
  if (pending_ != 0) {
    for (Group* group : groups()) group->settle(rank);
  }
  if (has_fabric()) settle_fabric(rank);
}

void World::rank_ended(std::int64_t rank) {
  // A rank that failed stays so.
  auto expected = RankReport::State::kRuns;
  status_[static_cast<std::size_t>(rank)].state.compare_exchange_strong(
      expected, RankReport::State::kEnded, std::memory_order_release);
  if (live_.fetch_sub(1) == 1 && !failed_ranks().empty()) conclude();
}

void World::rank_failed(std::int64_t rank, const Error& cause) {
  Status& status = status_[static_cast<std::size_t>(rank)];
  // In a world that has failed it repeats the world's failure.
  if (!failed()) status.cause = cause;
  status.state.store(RankReport::State::kFailed, std::memory_order_release);
}

void World::abort(std::int64_t rank, const Error& reason) {
  fail_with(backends::verdict_on_failed({rank}, reason.summary()), &reason);
}

void World::fail_with(Verdict verdict, const Error* cause) {
  if (verdict.kind == VerdictKind::kMismatch) leave_open(verdict);
  {
    const std::lock_guard lock(mutex_);
    if (!failed()) {
      Error failure = to_error(verdict);
      if (cause != nullptr) failure.caused_by(*cause);
      failure_ = make_ref<backends::Failure>(std::move(failure));
      verdict_ = std::move(verdict);
      failed_.store(true, std::memory_order_release);
    }
  }
  scheduler_.unpark_all(everyone_->ranks());
}

const Verdict* World::verdict() const { return failed() ? &*verdict_ : nullptr; }

std::vector<Group*> World::groups() const {
  const std::lock_guard lock(mutex_);
  std::vector<Group*> result;
  for (const std::unique_ptr<Group>& group : groups_) result.push_back(group.get());
  return result;
}

std::vector<RankReport> World::reports() const {
  std::vector<RankReport> result(static_cast<std::size_t>(ranks_));
  for (std::int64_t rank = 0; rank < ranks_; ++rank) {
    RankReport& report = result[static_cast<std::size_t>(rank)];
    report.rank = rank;
    report.state = status_[static_cast<std::size_t>(rank)].state.load(std::memory_order_acquire);
  }
  for (const Group* group : groups()) group->report(result);
  if (has_fabric()) report_fabric(result);
  const std::lock_guard lock(mutex_);
  for (const AnyWait& wait : any_waits_) {
    RankReport& report = result[static_cast<std::size_t>(wait.rank)];
    report.state = RankReport::State::kWaits;
    backends::describe_any(wait.group->ranks(), wait.group->name(), *wait.call, report);
  }
  return result;
}

std::optional<Verdict> World::torn_verdict() const {
  std::optional<Verdict> first;
  for (const Group* group : groups()) {
    std::optional<Verdict> verdict = group->torn_verdict();
    if (!verdict) continue;
    if (!first || verdict->culprits.front() < first->culprits.front()) first = std::move(verdict);
  }
  return first;
}

bool World::has_ended(std::int64_t rank) const {
  const RankReport::State state =
      status_[static_cast<std::size_t>(rank)].state.load(std::memory_order_acquire);
  return state == RankReport::State::kEnded || state == RankReport::State::kFailed;
}

std::vector<std::int64_t> World::failed_ranks() const {
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = 0; rank < ranks_; ++rank) {
    if (has_ended(rank) && status_[static_cast<std::size_t>(rank)].cause) ranks.push_back(rank);
  }
  return ranks;
}

void World::conclude() {
  if (choose()) return;
  const std::vector<std::int64_t> failed = failed_ranks();
  if (failed.empty()) return fail_with(verdict_on_waiting({}), nullptr);
  blame(failed);
}

void World::blame(const std::vector<std::int64_t>& failed) {
  const auto cause_of = [&](std::int64_t rank) -> const Error& {
    return *status_[static_cast<std::size_t>(rank)].cause;
  };
  const Error& cause = cause_of(failed.front());
  std::vector<std::int64_t> alike;
  for (const std::int64_t rank : failed) {
    if (cause_of(rank).summary() == cause.summary()) alike.push_back(rank);
  }
  fail_with(backends::verdict_on_failed(alike, cause.summary()), &cause);
}

Verdict World::verdict_on_waiting(const std::vector<bool>& stuck) const {
  // Calls that cannot meet are the better explanation, even if others are still missing.
  Verdict verdict = torn_verdict().value_or(Verdict{});
  if (!verdict.ranks.empty()) return verdict;
  verdict.ranks = reports();
  if (!verdict.culprits.empty()) return verdict;
  for (std::size_t rank = 0; rank < stuck.size(); ++rank) {
    RankReport& report = verdict.ranks[rank];
    if (stuck[rank] || report.state != RankReport::State::kWaits) continue;
    report = {};  // still runs
    report.rank = static_cast<std::int64_t>(rank);
  }
  verdict.kind = VerdictKind::kDeadlock;
  verdict.culprits = backends::missed(verdict.ranks);
  verdict.cause = backends::circle_of(verdict.ranks);
  return verdict;
}

std::vector<bool> World::stuck() const {
  const auto open_rounds = [&, all = groups()] {
    std::vector<OpenRound> rounds = any_rounds();
    for (const Group* group : all) group->add_open(rounds);
    return rounds;
  };
  const std::vector<OpenRound> before = open_rounds();
  std::vector<bool> ended(static_cast<std::size_t>(ranks_));
  if (before.empty()) return ended;
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    ended[rank] = has_ended(static_cast<std::int64_t>(rank));
  }
  return stuck_ranks(before, open_rounds(), ended);
}

void World::look() {
  const std::unique_lock turn(looking_, std::try_to_lock);
  if (!turn || failed()) return;
  const std::vector<bool> stuck_ones = stuck();
  const std::vector<std::int64_t> failed = failed_ranks();
  const bool all_go_on =
      failed.empty() && !torn_verdict() && std::ranges::find(stuck_ones, true) == stuck_ones.end();
  if (all_go_on || ++alarms_ < kMostAlarms) return;
  if (failed.empty()) return fail_with(verdict_on_waiting(stuck_ones), nullptr);
  blame(failed);
}

}  // namespace shardlab::threads
