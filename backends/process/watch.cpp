// A rank that has ended reports its last call, so that others need not wait for it any longer than
// that report takes.
#include "backends/process/watch.h"

#include <algorithm>
#include <utility>

namespace shardlab::process {

namespace {

std::optional<Entrance> call_of(const LongWait& wait) {
  if (!wait.standing || wait.standing->call.empty() || !wait.standing->what.empty()) {
    return std::nullopt;
  }
  return Reader(wait.standing->call).read<Entrance>();
}

}  // namespace

void LongWaits::wait(LongWait wait) { waits_.insert_or_assign(wait.rank, std::move(wait)); }

void LongWaits::end(std::int64_t rank, EnteredCounts entered) {
  ended_.insert_or_assign(rank, std::move(entered));
}

std::optional<LongWait> LongWaits::hopeless() const {
  if (ended_.empty()) return std::nullopt;
  for (const auto& [rank, wait] : waits_) {
    const std::optional<Entrance> call = call_of(wait);
    if (!call) continue;
    if (is_any(call->place)) {
      const bool alone = std::ranges::all_of(call->ranks, [&, me = rank](std::int64_t member) {
        return member == me || ended_.contains(member);
      });
      if (alone) return wait;
      continue;
    }
    const bool missed = std::ranges::any_of(call->ranks, [&](std::int64_t member) {
      const auto ended = ended_.find(member);
      if (ended == ended_.end()) return false;
      const auto entered = ended->second.find(call->place.group);
      return entered == ended->second.end() || entered->second <= call->place.sequence;
    });
    if (missed) return wait;
  }
  return std::nullopt;
}

Inquiry::Inquiry(std::uint64_t number, std::int64_t ranks, LongWait wait)
    : number_(number),
      wait_(std::move(wait)),
      group_([this] {
        const std::optional<Entrance> call = call_of(wait_);
        return call ? call->place.group : 0;
      }()),
      standings_(static_cast<std::size_t>(ranks)) {}

void Inquiry::answer(std::int64_t rank, Standing standing) {
  standings_[static_cast<std::size_t>(rank)] = std::move(standing);
}

bool Inquiry::complete() const {
  return std::ranges::all_of(standings_, [](const auto& standing) { return standing.has_value(); });
}

std::vector<std::int64_t> Inquiry::silent() const {
  std::vector<std::int64_t> ranks;
  for (std::size_t i = 0; i < standings_.size(); ++i) {
    if (!standings_[i]) ranks.push_back(static_cast<std::int64_t>(i));
  }
  return ranks;
}

bool Inquiry::reports(std::int64_t rank) const {
  const std::optional<Standing>& standing = standings_[static_cast<std::size_t>(rank)];
  return standing && standing->doing == Standing::Doing::kReports;
}

}  // namespace shardlab::process
