#include "backends/threads/group.h"

#include <algorithm>
#include <utility>

#include "backends/threads/execute.h"
#include "backends/threads/world.h"

namespace shardlab::threads {

namespace {

std::vector<Call*> calls_of(const Round& round) {
  std::vector<Call*> calls;
  calls.reserve(round.slots.size());
  for (const Round::Slot& slot : round.slots) calls.push_back(slot.call);
  return calls;
}

}  // namespace

Group::Group(World& world, std::vector<std::int64_t> ranks, std::string name)
    : world_(world), ranks_(std::move(ranks)), name_(std::move(name)) {}

Group::~Group() {
  for (const Ref<Round>& round : open_) {
    round->error = Error(ErrorKind::kRuntime, "a collective was pending when its world ended");
    round->state.store(Round::State::kFailed, std::memory_order_release);
    round->kept.clear();
  }
}

Round& Group::round_of(std::uint64_t sequence) {
  const std::size_t index = sequence - first_open_;
  check_invariant(index <= open_.size(), "ranks enter the rounds of a group in order");
  if (index < open_.size()) return *open_[index];
  const auto idle = std::ranges::find_if(
      resting_, [](const Ref<Round>& round) { return round->use_count() == 1; });
  Ref<Round> round;
  if (idle != resting_.end()) {
    round = std::exchange(*idle, std::move(resting_.back()));
    resting_.pop_back();
  } else {
    round = make_ref<Round>();
  }
  round->reset(sequence, ranks_.size());
  return *open_.emplace_back(std::move(round));
}

Ref<Round> Group::enter(std::size_t rank, std::uint64_t sequence, Call& call, Entry entry,
                        Ref<Counted> keep) {
  if (world_.failed()) throw Error(world_.failure());
  Ref<Round> round;
  {
    const std::lock_guard lock(mutex_);
    round = Ref<Round>(&round_of(sequence));
    if (round->error) throw Error(*round->error);
    round->slots[rank] = {&call, entry == Entry::kBlocks};
    if (keep) round->kept.push_back(std::move(keep));
    if (++round->arrived < ranks_.size()) return round;
    round->state.store(Round::State::kComputing, std::memory_order_relaxed);
  }
  complete(*round);
  return round;
}

void Group::complete(Round& round) {
  std::optional<Error> error;
  try {
    perform(round);
  } catch (const Error& failure) {
    error = failure;
  }
  std::vector<Ref<Counted>> kept;
  {
    const std::lock_guard lock(mutex_);
    round.error = std::move(error);
    kept.swap(round.kept);
    resting_.push_back(std::move(open_.front()));
    open_.erase(open_.begin());
    ++first_open_;
    round.state.store(round.error ? Round::State::kFailed : Round::State::kDone,
                      std::memory_order_release);
  }
  // The caller holds the round; its slots are not used again before it lets go.
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (round.slots[i].blocked) world_.scheduler().unpark(ranks_[i]);
  }
}

void Group::perform(Round& round) {
  const std::vector<Call*> calls = calls_of(round);
  if (!consistent(calls)) {
    world_.fail_with(mismatch(round), nullptr);
    throw Error(world_.failure());
  }
  if (calls[0]->kind == CollectiveKind::kSplit) return split(calls);
  execute(calls);
}

void Group::await(Round& round, std::size_t rank, const Call& call, Entry entry) {
  using State = Round::State;
  const auto over = [&round] {
    return round.state.load(std::memory_order_acquire) >= State::kDone;
  };
  if (!over()) {
    const Waiting waiting{this, &round, &call};
    world_.set_waiting(ranks_[rank], &waiting);
    if (entry == Entry::kGoesOn) {
      const std::lock_guard lock(mutex_);
      if (!over()) round.slots[rank].blocked = true;
    }
    while (!over()) {
      if (world_.failed() && abandon(round)) break;
      world_.scheduler().park();
    }
    world_.set_waiting(ranks_[rank], nullptr);
  }
  if (round.state.load(std::memory_order_acquire) == State::kFailed) throw Error(*round.error);
}

bool Group::abandon(Round& round) {
  const std::lock_guard lock(mutex_);
  // One that is being computed reads the callers' data: they stay until it is over.
  if (round.state.load(std::memory_order_relaxed) != Round::State::kGathering) return false;
  round.error = world_.failure();
  round.state.store(Round::State::kFailed, std::memory_order_release);
  return true;
}

void Group::split(std::span<Call* const> calls) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i]->color >= 0) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::pair(calls[a]->color, calls[a]->key) < std::pair(calls[b]->color, calls[b]->key);
  });
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    std::vector<std::int64_t> ranks;
    while (end < order.size() && calls[order[end]]->color == calls[order[begin]]->color) {
      ranks.push_back(ranks_[order[end++]]);
    }
    Group& group = world_.add_group(std::move(ranks), std::string(calls[order[begin]]->name));
    for (std::size_t i = begin; i < end; ++i) {
      calls[order[i]]->group = &group;
      calls[order[i]]->group_rank = static_cast<std::int64_t>(i - begin);
    }
    begin = end;
  }
}

void Group::describe(const Round& round, const Call& call, RankReport& report) const {
  report.what = signature(call);
  if (call.op_name != nullptr) report.op = call.op_name;
  report.group = name_;
  report.call = static_cast<std::int64_t>(round.sequence);
  if (call.position.file != nullptr) {
    report.where = fmt::format("{}:{}", call.position.file, call.position.line);
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (round.slots[i].call == nullptr) report.missing.push_back(ranks_[i]);
  }
  std::ranges::sort(report.missing);
}

bool Group::torn(const Round& round) {
  const Call* first = nullptr;
  for (const Round::Slot& slot : round.slots) {
    if (slot.call == nullptr) continue;
    if (first == nullptr) first = slot.call;
    if (!compatible(*first, *slot.call)) return true;
  }
  return false;
}

std::vector<std::int64_t> Group::odd_ones(const Round& round) const {
  // Sets of calls that can meet, by their first member.
  std::vector<std::pair<const Call*, std::vector<std::int64_t>>> sets;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Call* call = round.slots[i].call;
    if (call == nullptr) continue;
    const auto set = std::ranges::find_if(
        sets, [&](const auto& known) { return compatible(*known.first, *call); });
    if (set == sets.end()) {
      sets.push_back({call, {ranks_[i]}});
    } else {
      set->second.push_back(ranks_[i]);
    }
  }
  const auto most =
      std::ranges::max_element(sets, {}, [](const auto& set) { return set.second.size(); });
  const auto rivals = std::ranges::count_if(
      sets, [&](const auto& set) { return set.second.size() == most->second.size(); });
  std::vector<std::int64_t> result;
  for (const auto& set : sets) {
    if (&set == &*most && rivals == 1 && sets.size() > 1) continue;
    result.insert(result.end(), set.second.begin(), set.second.end());
  }
  std::ranges::sort(result);
  return result;
}

Verdict Group::mismatch(const Round& round) const {
  Verdict verdict;
  verdict.kind = VerdictKind::kMismatch;
  verdict.culprits = odd_ones(round);
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    RankReport report;
    report.rank = ranks_[i];
    report.state = RankReport::State::kWaits;
    describe(round, *round.slots[i].call, report);
    verdict.ranks.push_back(std::move(report));
  }
  std::ranges::sort(verdict.ranks, {}, &RankReport::rank);
  return verdict;
}

}  // namespace shardlab::threads
