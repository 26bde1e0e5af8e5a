// Ranks meet in rounds, one per collective of the group, found by its number in the group's
// sequence. The last one to arrive compares the calls and, where they fit, computes; where they do
// not, the round is torn and stays open, so that its ranks wait until the world concludes. Rounds
// are used again.
#include "backends/threads/group.h"

#include <algorithm>
#include <utility>

#include "backends/threads/execute.h"
#include "backends/threads/world.h"

namespace shardlab::threads {

namespace {

// The number of rounds after which an advancing group checks whether ranks elsewhere are stuck. A
// check takes as long as a few rounds.
constexpr std::uint64_t kRoundsPerLook = 256;

}  // namespace

Group::Group(World& world, std::vector<std::int64_t> ranks, std::string name)
    : world_(world),
      ranks_(std::move(ranks)),
      name_(std::move(name)),
      crew_(world.scheduler(), ranks_),
      mutex_(world.scheduler()) {}

Group::~Group() {
  const Ref<const backends::Failure> ended =
      make_ref<backends::Failure>(backends::pending_at_the_end());
  for (const std::unique_ptr<Round>& round : open_) {
    // Only pending calls of these are left: ranks have ended, so that nobody waits.
    for (Call* call : round->calls) {
      if (call != nullptr && !call->over()) call->fail_with(ended);
    }
  }
}

Round& Group::open_round(std::uint64_t sequence) {
  check_invariant(sequence - first_open_ == open_.size(),
                  "ranks enter the rounds of a group in order");
  std::unique_ptr<Round> round;
  if (resting_.empty()) {
    round = std::make_unique<Round>();
  } else {
    round = std::move(resting_.back());
    resting_.pop_back();
  }
  round->reset(sequence, ranks_.size());
  return *open_.emplace_back(std::move(round));
}

void Group::enter(std::size_t rank, std::uint64_t sequence, Call& call, Entry entry,
                  Ref<Counted> keep) {
  if (world_.failed()) throw Error(world_.failure()->error);
  const CollectiveKind kind = call.kind;
  Round* round = nullptr;
  bool completes = false;
  {
    const std::lock_guard lock(mutex_);
    round = &round_of(sequence);
    if (round->failure) throw Error(round->failure->error);
    round->calls[rank] = &call;
    round->blocked[rank] = entry == Entry::kBlocks;
    if (keep) {
      round->kept.push_back({rank, std::move(keep)});
      world_.count_pending(1);
    }
    ++round->arrived;
    completes = !stays_open(*round);
    if (completes) {
      round->computing = true;
      round->blocked[rank] = 0;
    }
  }
  if (!completes) {
    if (kind == CollectiveKind::kSend) world_.report_sent(ranks_[1]);
    return;
  }
  if (!backends::consistent(round->calls)) return tear(*round, rank, entry);
  complete(*round);
}

void Group::tear(Round& round, std::size_t rank, Entry entry) {
  {
    const std::lock_guard lock(mutex_);
    round.computing = false;
    round.torn = torn_ = true;
    round.blocked[rank] = entry == Entry::kBlocks;
  }
  // A rank that learned of a failure meanwhile waits until no rank computes.
  if (world_.failed()) world_.scheduler().unpark_all(ranks_);
}

void Group::complete(Round& round) {
  Ref<const backends::Failure> failed;
  try {
    perform(round);
  } catch (const Error& failure) {
    failed = make_ref<backends::Failure>(failure);
  }
  std::unique_ptr<Round> over;
  {
    const std::lock_guard lock(mutex_);
    over = std::move(open_.front());
    open_.erase(open_.begin());
    ++first_open_;
    for (Call* call : over->calls) {
      if (failed) {
        call->fail_with(failed);
      } else {
        call->finish();
      }
    }
  }
  wake(*over);
  if (!over->kept.empty()) {
    world_.count_pending(-static_cast<std::int64_t>(over->kept.size()));
    over->kept.clear();
  }
  const bool looks = over->sequence % kRoundsPerLook == kRoundsPerLook - 1;
  {
    const std::lock_guard lock(mutex_);
    resting_.push_back(std::move(over));
  }
  if (looks) world_.look();
}

void Group::wake(const Round& round) {
  const std::span<const std::int64_t> ranks = ranks_;
  for (std::size_t begin = 0, end = 0; begin < ranks.size(); begin = end + 1) {
    end = begin;
    while (end < ranks.size() && round.blocked[end] != 0) ++end;
    if (end > begin) world_.scheduler().unpark_all(ranks.subspan(begin, end - begin));
  }
}

void Group::perform(const Round& round) {
  if (round.calls[0]->kind == CollectiveKind::kSplit) return split(round.calls);
  execute(round.calls, crew_);
}

void Group::await(std::size_t rank, std::uint64_t sequence, Call& call, Entry entry) {
  if (!call.over()) {
    if (entry == Entry::kGoesOn) {
      const std::lock_guard lock(mutex_);
      if (!call.over()) round_of(sequence).blocked[rank] = 1;
    }
    while (!call.over()) {
      if (world_.failed() && abandon(sequence, call)) break;
      crew_.help();
      world_.scheduler().park();
    }
  }
  if (call.failure) throw Error(call.failure->error);
}

bool Group::sent(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  const std::size_t index = sequence - first_open_;
  return index < open_.size() && open_[index]->calls[0] != nullptr;
}

Group::Unsettled Group::unsettled(std::size_t rank) {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Round>& round : open_) {
    Call* call = round->calls[rank];
    if (call == nullptr || call->over()) continue;
    const auto kept = std::ranges::find(round->kept, rank, &Kept::rank);
    if (kept != round->kept.end()) return {round->sequence, call, kept->call};
  }
  return {};
}

void Group::settle(std::int64_t rank) {
  // A rank that sends to itself is in the list twice.
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    if (ranks_[place] != rank) continue;
    for (Unsettled one = unsettled(place); one.call != nullptr; one = unsettled(place)) {
      await(place, one.sequence, *one.call, Entry::kGoesOn);
    }
  }
}

bool Group::abandon(std::uint64_t sequence, Call& call) {
  const std::lock_guard lock(mutex_);
  if (call.over()) return true;
  Round& round = round_of(sequence);
  // One that is being computed reads the callers' data: they stay until it is over.
  if (round.computing) return false;
  round.failure = world_.failure();
  for (Call*& other : round.calls) {
    if (other != &call) continue;
    other = nullptr;
    call.fail_with(world_.failure());
  }
  return true;
}

void Group::add_open(std::vector<OpenRound>& rounds) const {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Round>& round : open_) {
    if (!stays_open(*round)) continue;
    OpenRound open{this, round->sequence, {}, {}, torn_};
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (round->calls[i] == nullptr) {
        open.missing.push_back(ranks_[i]);
      } else if (round->blocked[i] != 0) {
        open.blocked.push_back(ranks_[i]);
      }
    }
    rounds.push_back(std::move(open));
  }
}

void Group::report(std::vector<RankReport>& by_rank) const {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Round>& round : open_) {
    if (!stays_open(*round)) continue;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      // The call of a blocked rank stays as long as the mutex is held.
      if (round->calls[i] == nullptr || round->blocked[i] == 0) continue;
      RankReport& report = by_rank[static_cast<std::size_t>(ranks_[i])];
      report.state = RankReport::State::kWaits;
      describe(meeting(*round), *round->calls[i], report);
    }
  }
}

std::optional<Verdict> Group::torn_verdict() const {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Round>& round : open_) {
    if (round->torn) return mismatch(meeting(*round));
    if (!stays_open(*round) || !torn(meeting(*round))) continue;
    return mismatch_so_far(meeting(*round));
  }
  return std::nullopt;
}

void Group::split(std::span<Call* const> calls) {
  const auto part = [&](std::size_t i) -> GroupSplit& {
    return static_cast<GroupSplit&>(*std::get<backends::SplitPart*>(calls[i]->part));
  };
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (part(i).color >= 0) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::pair(part(a).color, part(a).key) < std::pair(part(b).color, part(b).key);
  });
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    std::vector<std::int64_t> ranks;
    while (end < order.size() && part(order[end]).color == part(order[begin]).color) {
      ranks.push_back(ranks_[order[end++]]);
    }
    Group& group = world_.add_group(std::move(ranks), std::string(part(order[begin]).name));
    for (std::size_t i = begin; i < end; ++i) {
      part(order[i]).group = &group;
      part(order[i]).group_rank = static_cast<std::int64_t>(i - begin);
    }
    begin = end;
  }
}

}  // namespace shardlab::threads
