// Calls meet by place (group and number) and first member. A rank's messages arrive in its order,
// so that its seat always shows its last action; when every seat waits or has ended, nobody can
// advance, and the seats are the explanation.
#include "backends/process/referee.h"

#include <algorithm>
#include <utility>

namespace shardlab::process {

Referee::Referee(std::int64_t ranks) : seats_(static_cast<std::size_t>(ranks)) {}

Referee::Ruling Referee::enter(std::int64_t rank, const Entrance& entrance,
                               std::unique_ptr<EnteredCall> call) {
  if (is_any(entrance.place)) return enter_any(rank, entrance, std::move(call));
  const auto place = rounds_.try_emplace({entrance.place, entrance.ranks.front()}).first;
  Round& round = place->second;
  if (round.ranks.empty()) {
    round.opened = opened_++;
    round.group = entrance.group;
    round.ranks = entrance.ranks;
    round.entered.resize(round.ranks.size());
    round.calls.resize(round.ranks.size());
  }
  const auto index =
      static_cast<std::size_t>(std::ranges::find(round.ranks, rank) - round.ranks.begin());
  check_invariant(index < round.ranks.size(), "a rank enters collectives of its own groups");
  round.calls[index] = &call->call();
  round.entered[index] = std::move(call);
  Seat& seat = seats_[static_cast<std::size_t>(rank)];
  if (entrance.waits) seat = {RankReport::State::kWaits, entrance.place};
  if (++round.arrived < round.ranks.size()) {
    const auto any = entrance.place.group < 0 ? anys_.find(round.ranks.back()) : anys_.end();
    if (any == anys_.end() || !sender_for(any->second.entrance.place, entrance.place)) {
      return look_for_stall();
    }
    return meet_any(any->first, place->first);
  }

  Ruling ruling;
  if (!backends::consistent(round.calls)) {
    ruling.verdict = mismatch(meeting(entrance.place, round));
    return ruling;
  }
  ruling.met = entrance.place;
  ruling.ranks = round.ranks;
  for (const std::int64_t member : round.ranks) {
    Seat& other = seats_[static_cast<std::size_t>(member)];
    const bool waits_here =
        other.state == RankReport::State::kWaits && other.place == entrance.place;
    if (waits_here) other.state = RankReport::State::kRuns;
  }
  rounds_.erase(place);
  return ruling;
}

// It takes the message that was sent first. Messages that the rank has requested by
// their sender before are taken: it does nothing else while it waits.
Referee::Ruling Referee::enter_any(std::int64_t rank, const Entrance& entrance,
                                   std::unique_ptr<EnteredCall> call) {
  seats_[static_cast<std::size_t>(rank)] = {RankReport::State::kWaits, entrance.place};
  anys_[rank] = {entrance, std::move(call)};
  const Place* first = nullptr;
  std::uint64_t opened = 0;
  for (const auto& [place, round] : rounds_) {
    if (place.first.group >= 0) break;
    const bool mine = round.ranks.back() == rank && round.calls.front() != nullptr &&
                      sender_for(entrance.place, place.first);
    if (!mine || (first != nullptr && opened < round.opened)) continue;
    first = &place;
    opened = round.opened;
  }
  return first == nullptr ? look_for_stall() : meet_any(rank, *first);
}

Referee::Ruling Referee::meet_any(std::int64_t rank, const Place& sent) {
  AnyWait any = std::move(anys_.extract(rank).mapped());
  const CallPlace asked = any.entrance.place;
  const std::int64_t sender = *sender_for(asked, sent.first);
  any.call->call().from = static_cast<std::int32_t>(sender);
  any.entrance.place = sent.first;
  any.entrance.ranks = {sent.second, rank};
  Ruling ruling = enter(rank, any.entrance, std::move(any.call));
  if (ruling.met) ruling.met_any = {{asked.group, static_cast<std::uint64_t>(sender)}};
  return ruling;
}

Referee::Ruling Referee::wait(std::int64_t rank, CallPlace place) {
  if (round_at(rank, place) == nullptr) return {};
  seats_[static_cast<std::size_t>(rank)] = {RankReport::State::kWaits, place};
  return look_for_stall();
}

Referee::Ruling Referee::end(std::int64_t rank) {
  seats_[static_cast<std::size_t>(rank)].state = RankReport::State::kEnded;
  return look_for_stall();
}

const Referee::Round* Referee::round_at(std::int64_t rank, CallPlace place) const {
  for (auto entry = rounds_.lower_bound({place, 0});
       entry != rounds_.end() && entry->first.first == place; ++entry) {
    const Round& round = entry->second;
    if (std::ranges::find(round.ranks, rank) != round.ranks.end()) return &round;
  }
  return nullptr;
}

RankReport Referee::report_on(std::int64_t rank) const {
  const Seat& seat = seats_[static_cast<std::size_t>(rank)];
  RankReport report;
  report.rank = rank;
  report.state = seat.state;
  if (seat.state != RankReport::State::kWaits) return report;
  if (const auto any = anys_.find(rank); any != anys_.end()) {
    const AnyWait& wait = any->second;
    backends::describe_any(wait.entrance.ranks, wait.entrance.group, wait.call->call(), report);
    return report;
  }
  const Round& round = *round_at(rank, seat.place);
  const auto index =
      static_cast<std::size_t>(std::ranges::find(round.ranks, rank) - round.ranks.begin());
  describe(meeting(seat.place, round), *round.calls[index], report);
  return report;
}

// Everybody waits or has ended.
Referee::Ruling Referee::look_for_stall() const {
  bool anybody_waits = false;
  for (const Seat& seat : seats_) {
    if (seat.state == RankReport::State::kRuns) return {};
    anybody_waits = anybody_waits || seat.state == RankReport::State::kWaits;
  }
  if (!anybody_waits) return {};
  Verdict verdict;
  verdict.kind = VerdictKind::kDeadlock;
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    verdict.ranks.push_back(report_on(static_cast<std::int64_t>(rank)));
  }
  verdict.culprits = backends::missed(verdict.ranks);
  verdict.cause = backends::circle_of(verdict.ranks);
  // Calls that cannot meet are the better explanation, even if others are still missing.
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    if (seats_[rank].state != RankReport::State::kWaits || is_any(seats_[rank].place)) continue;
    const CallPlace place = seats_[rank].place;
    const Round& round = *round_at(static_cast<std::int64_t>(rank), place);
    if (!torn(meeting(place, round))) continue;
    verdict = mismatch_so_far(meeting(place, round), std::move(verdict.ranks));
    break;
  }
  Ruling ruling;
  ruling.verdict = std::move(verdict);
  return ruling;
}

}  // namespace shardlab::process
