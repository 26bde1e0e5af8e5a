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

void World::fail_with(Verdict verdict, const Error* cause) {
  {
    const std::lock_guard lock(mutex_);
    if (failed()) return;
    failure_ = to_error(verdict);
    if (cause != nullptr) failure_->caused_by(*cause);
    verdict_ = std::move(verdict);
    failed_.store(true, std::memory_order_release);
  }
  for (std::int64_t rank = 0; rank < ranks_; ++rank) scheduler_.unpark(rank);
}

const Verdict* World::verdict() const { return failed() ? &*verdict_ : nullptr; }

std::vector<RankReport> World::reports() const {
  std::vector<RankReport> result(static_cast<std::size_t>(ranks_));
  for (std::int64_t rank = 0; rank < ranks_; ++rank) {
    const Status& status = status_[static_cast<std::size_t>(rank)];
    RankReport& report = result[static_cast<std::size_t>(rank)];
    report.rank = rank;
    report.state = status.state.load(std::memory_order_acquire);
    const Waiting* waiting = status.waiting.load(std::memory_order_acquire);
    if (report.state != RankReport::State::kRuns || waiting == nullptr) continue;
    report.state = RankReport::State::kWaits;
    const Round& round = waiting->group->open_round(waiting->sequence);
    describe(waiting->group->meeting(round), *waiting->call, report);
  }
  return result;
}

void World::stalled() {
  Verdict verdict;
  verdict.ranks = reports();
  verdict.kind = VerdictKind::kDeadlock;
  verdict.culprits = backends::missed(verdict.ranks);
  // Calls that cannot meet are the better explanation, even if others are still missing.
  for (std::int64_t rank = 0; rank < ranks_; ++rank) {
    const Status& status = status_[static_cast<std::size_t>(rank)];
    const Waiting* waiting = status.waiting.load(std::memory_order_acquire);
    if (waiting == nullptr) continue;
    const Round& round = waiting->group->open_round(waiting->sequence);
    const backends::Meeting meeting = waiting->group->meeting(round);
    if (!torn(meeting)) continue;
    verdict.kind = VerdictKind::kMismatch;
    verdict.culprits = odd_ones(meeting);
    break;
  }
  fail_with(std::move(verdict), nullptr);
}

}  // namespace shardlab::threads
