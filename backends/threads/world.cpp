// A world fails for a reason that does not depend on the schedule: it lets every rank continue as
// far as it can, and checks only when none can (conclude(), called by the scheduler when it stalls)
// or, for worlds where some ranks run forever, from time to time (look()). Then failed ranks
// explain it before calls that do not fit, and those before ranks that are missing; of each kind
// the lowest rank is named (B-5 to B-7).
#include "backends/threads/world.h"

#include <algorithm>
#include <numeric>

#include "backends/threads/communicator.h"

namespace shardlab {

std::unique_ptr<Backend> make_threads_backend(std::int64_t ranks, Scheduler& scheduler) {
  return std::make_unique<threads::World>(ranks, scheduler);
}

}  // namespace shardlab

namespace shardlab::threads {

namespace {

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
  return make_communicator(*everyone_, rank);
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
