#include "backends/threads/world.h"

#include <algorithm>
#include <numeric>

#include "backends/threads/communicator.h"
#include "backends/threads/threads.h"

namespace shardlab {

std::unique_ptr<Backend> make_threads_backend(std::int64_t ranks, Scheduler& scheduler) {
  return std::make_unique<threads::World>(ranks, scheduler);
}

}  // namespace shardlab

namespace shardlab::threads {

World::World(std::int64_t ranks, Scheduler& scheduler)
    : scheduler_(scheduler),
      ranks_(ranks),
      status_(std::make_unique<Status[]>(static_cast<std::size_t>(ranks))) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  everyone_ = &add_group(std::move(all), "world");
  scheduler_.on_stall([this] { stalled(); });
}

World::~World() { scheduler_.on_stall(nullptr); }

Group& World::add_group(std::vector<std::int64_t> ranks, std::string name) {
  auto group = std::make_unique<Group>(*this, std::move(ranks), std::move(name));
  const std::lock_guard lock(mutex_);
  return *groups_.emplace_back(std::move(group));
}

std::unique_ptr<Communicator> World::world(std::int64_t rank) {
  return make_communicator(*this, *everyone_, rank);
}

void World::settle(std::int64_t rank) {
  if (pending_ > 0) {
    for (Group* group : groups()) group->settle(rank);
  }
  if (status_[static_cast<std::size_t>(rank)].unheard) throw Error(failure()->error);
}

void World::rank_ended(std::int64_t rank) {
  // A rank that failed stays so.
  auto expected = RankReport::State::kRuns;
  status_[static_cast<std::size_t>(rank)].state.compare_exchange_strong(
      expected, RankReport::State::kEnded, std::memory_order_release);
}

void World::rank_failed(std::int64_t rank, const Error& cause) {
  status_[static_cast<std::size_t>(rank)].state.store(RankReport::State::kFailed,
                                                      std::memory_order_release);
  Verdict verdict;
  verdict.kind = VerdictKind::kRankFailed;
  verdict.culprits = {rank};
  verdict.cause = cause.summary();
  RankReport report;
  report.rank = rank;
  report.state = RankReport::State::kFailed;
  verdict.ranks.push_back(std::move(report));
  fail_with(std::move(verdict), &cause);
}

void World::note_failure(Verdict verdict, const Error* cause) {
  const std::lock_guard lock(mutex_);
  if (failed()) return;
  Error failure = to_error(verdict);
  if (cause != nullptr) failure.caused_by(*cause);
  failure_ = make_ref<backends::Failure>(std::move(failure));
  verdict_ = std::move(verdict);
  failed_.store(true, std::memory_order_release);
}

void World::wake_all() { scheduler_.unpark_all(everyone_->ranks()); }

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

void World::stalled() {
  // Calls that cannot meet are the better explanation, even if others are still missing.
  Verdict verdict = torn_verdict().value_or(Verdict{});
  verdict.ranks = reports();
  if (verdict.culprits.empty()) {
    verdict.kind = VerdictKind::kDeadlock;
    verdict.culprits = backends::missed(verdict.ranks);
  }
  fail_with(std::move(verdict), nullptr);
}

std::vector<bool> World::stuck() const {
  const std::vector<Group*> all = groups();
  std::vector<OpenRound> before;
  for (const Group* group : all) group->add_open(before);
  std::vector<bool> ended(static_cast<std::size_t>(ranks_));
  if (before.empty()) return ended;
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    ended[rank] = status_[rank].state.load(std::memory_order_acquire) == RankReport::State::kEnded;
  }
  std::vector<OpenRound> after;
  for (const Group* group : all) group->add_open(after);
  return stuck_ranks(before, after, ended);
}

void World::look() {
  const std::unique_lock turn(looking_, std::try_to_lock);
  if (!turn || failed()) return;
  Verdict verdict = torn_verdict().value_or(Verdict{});
  const bool torn = !verdict.culprits.empty();
  const std::vector<bool> stuck_ones = stuck();
  if (!torn && std::ranges::find(stuck_ones, true) == stuck_ones.end()) return;
  verdict.ranks = reports();
  if (!torn) {
    for (std::size_t rank = 0; rank < stuck_ones.size(); ++rank) {
      RankReport& report = verdict.ranks[rank];
      if (stuck_ones[rank] || report.state != RankReport::State::kWaits) continue;
      report = {};  // goes on
      report.rank = static_cast<std::int64_t>(rank);
    }
    verdict.kind = VerdictKind::kDeadlock;
    verdict.culprits = backends::missed(verdict.ranks);
  }
  fail_with(std::move(verdict), nullptr);
}

}  // namespace shardlab::threads
