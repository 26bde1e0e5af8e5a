// The ranks that are behind: of the group of the call that the rank waits in, those that have
// entered fewer calls. If ranks continue without waiting, as on GPUs, several are; the last of them
// count.
#include "backends/process/silence.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "backends/shared/meeting.h"

namespace shardlab::process {

namespace {

using Doing = Standing::Doing;
using State = RankReport::State;

struct Said {
  std::int64_t rank;
  std::optional<Standing> standing;
  std::optional<Entrance> entrance;  ///< of its last call
  std::unique_ptr<EnteredCall> call = {};
};

Said said_by(std::int64_t rank, std::optional<Standing> standing) {
  Said said{rank, std::move(standing), std::nullopt};
  if (!said.standing || said.standing->call.empty()) return said;
  Reader reader(said.standing->call);
  said.entrance = reader.read<Entrance>();
  said.call = std::make_unique<EnteredCall>(reader);
  return said;
}

State state_of(const Said& said) {
  if (!said.standing) return State::kSilent;
  switch (said.standing->doing) {
    case Doing::kWaits:
      return State::kWaits;
    case Doing::kEnded:
      return State::kEnded;
    case Doing::kComputes:
    case Doing::kReports:
      break;
  }
  return State::kRuns;
}

RankReport report_on(const Said& said) {
  RankReport report;
  report.rank = said.rank;
  report.state = state_of(said);
  if (report.state == State::kSilent || report.state == State::kEnded) return report;
  report.seconds = said.standing->seconds;
  if (report.state == State::kWaits && !said.standing->what.empty()) {
    report.what = said.standing->what;
  } else if (said.call) {
    const std::vector<std::int64_t>& ranks = said.entrance->ranks;
    const std::vector<const backends::Call*> nobody(ranks.size());
    backends::describe({ranks, said.entrance->group, said.entrance->place.sequence, nobody},
                       said.call->call(), report);
    report.missing.clear();
  }
  return report;
}

// The group's ranks and the calls of those that are where the waiting rank is.
struct Gathering {
  std::vector<std::int64_t> ranks;
  std::vector<const backends::Call*> calls;
};

bool waits_in_call(const Said& said) {
  return said.entrance && said.standing->doing != Doing::kEnded && said.standing->what.empty();
}

Gathering gathering_of(const Said& waiting, const std::vector<Said>& all) {
  Gathering gathering{waiting.entrance->ranks, {}};
  for (const std::int64_t rank : gathering.ranks) {
    const Said& said = all[static_cast<std::size_t>(rank)];
    const bool here = waits_in_call(said) && said.entrance->place == waiting.entrance->place;
    gathering.calls.push_back(here ? &said.call->call() : nullptr);
  }
  return gathering;
}

// Without a collective, ranks that do not do the same are behind.
std::vector<std::int64_t> behind_what(const Said& waiting, const std::vector<Said>& all) {
  std::vector<std::int64_t> ranks;
  for (const Said& said : all) {
    const bool same = said.standing && waiting.standing &&
                      said.standing->doing == waiting.standing->doing &&
                      said.standing->what == waiting.standing->what;
    if (!same) ranks.push_back(said.rank);
  }
  return ranks;
}

std::vector<std::int64_t> behind_call(const Said& waiting, const std::vector<Said>& all) {
  if (is_any(waiting.entrance->place)) {
    std::vector<std::int64_t> others = waiting.entrance->ranks;
    std::erase(others, waiting.rank);
    std::ranges::sort(others);
    return others;
  }
  const auto entered = [&](std::int64_t rank) {
    return all[static_cast<std::size_t>(rank)].standing->entered;
  };
  const std::uint64_t wanted = waiting.entrance->place.sequence + 1;
  std::uint64_t fewest = wanted;
  for (const std::int64_t rank : waiting.entrance->ranks) fewest = std::min(fewest, entered(rank));
  std::vector<std::int64_t> ranks;
  for (const std::int64_t rank : waiting.entrance->ranks) {
    if (fewest < wanted && entered(rank) == fewest) ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

std::vector<std::int64_t> silent_ones(const std::vector<Said>& all) {
  std::vector<std::int64_t> ranks;
  for (const Said& said : all) {
    if (!said.standing) ranks.push_back(said.rank);
  }
  return ranks;
}

bool has_ended(const Said& said) { return said.standing && said.standing->doing == Doing::kEnded; }

// "all_reduce(f32[4], sum) on group world, call 2".
std::string place_of(const Said& waiting) {
  if (!waiting.standing) return "an exchange";
  if (!waits_in_call(waiting)) return waiting.standing->what;
  return fmt::format("{} on group {}, call {}", report_on(waiting).what, waiting.entrance->group,
                     waiting.entrance->place.sequence);
}

std::string cause_of_wait(const LongWait& wait, const Said& waiting, const Verdict& verdict) {
  const std::string place = place_of(waiting);
  const std::string time = fmt::format("{:.3g} s", wait.seconds);
  if (verdict.culprits.empty()) {
    return fmt::format("all ranks have entered {}, which has not ended for {}", place, time);
  }
  const std::string who = fold_ranks(verdict.culprits);
  return fmt::format("{} waited {} for {} in {}", fold_ranks({&wait.rank, 1}), time, who, place);
}

// An ended rank waits for those whose calls it has not entered: these are the cause, whichever rank
// lost patience first.
const Said& cause_among(const Said& waiting, const std::vector<Said>& all) {
  if (!waiting.standing || waits_in_call(waiting) || !silent_ones(all).empty()) return waiting;
  const auto lacks_ended = [&](const Said& said) {
    return waits_in_call(said) &&
           std::ranges::any_of(behind_call(said, all), [&](std::int64_t rank) {
             return has_ended(all[static_cast<std::size_t>(rank)]);
           });
  };
  const auto found = std::ranges::find_if(all, lacks_ended);
  return found == all.end() ? waiting : *found;
}

}  // namespace

Verdict verdict_on_wait(const LongWait& wait, std::vector<std::optional<Standing>> standings) {
  if (wait.standing) standings[static_cast<std::size_t>(wait.rank)] = wait.standing;
  std::vector<Said> all;
  for (std::size_t i = 0; i < standings.size(); ++i) {
    all.push_back(said_by(static_cast<std::int64_t>(i), std::move(standings[i])));
  }
  const Said& waiting = cause_among(all[static_cast<std::size_t>(wait.rank)], all);
  const bool in_call = waiting.standing && waits_in_call(waiting);
  Verdict verdict;
  verdict.kind = VerdictKind::kTimeout;
  for (const Said& said : all) verdict.ranks.push_back(report_on(said));
  verdict.culprits = silent_ones(all);
  if (verdict.culprits.empty()) {
    verdict.culprits = in_call ? behind_call(waiting, all) : behind_what(waiting, all);
    std::vector<std::int64_t> ended;
    for (const std::int64_t rank : verdict.culprits) {
      if (has_ended(all[static_cast<std::size_t>(rank)])) ended.push_back(rank);
    }
    const bool never =
        in_call && (is_any(waiting.entrance->place) ? ended.size() == verdict.culprits.size()
                                                    : !ended.empty());
    if (never) {
      verdict.kind = VerdictKind::kDeadlock;
      verdict.culprits = std::move(ended);
    }
  }
  if (in_call) {
    const Gathering gathering = gathering_of(waiting, all);
    const backends::Meeting meeting{gathering.ranks, waiting.entrance->group,
                                    waiting.entrance->place.sequence, gathering.calls};
    for (std::size_t i = 0; i < gathering.ranks.size(); ++i) {
      if (gathering.calls[i] == nullptr) continue;
      RankReport& report = verdict.ranks[static_cast<std::size_t>(gathering.ranks[i])];
      report.state = State::kWaits;
      report.missing = verdict.culprits;
    }
    if (torn(meeting)) return mismatch_so_far(meeting, std::move(verdict.ranks));
  }
  if (verdict.kind == VerdictKind::kTimeout) verdict.cause = cause_of_wait(wait, waiting, verdict);
  return verdict;
}

}  // namespace shardlab::process
