// A verdict in words. Ranks with equal reports are one line, so that the text grows with the number
// of different states and not with that of the ranks.
#include "comm/verdict.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace shardlab {

std::string_view to_string(VerdictKind kind) {
  constexpr std::string_view kNames[] = {"mismatch", "deadlock", "rank_failed", "timeout"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string fold_ranks(std::span<const std::int64_t> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + rank_ranges(ranks);
}

namespace {

// Whether the culprits wait themselves, rather than being absent.
bool all_wait(const Verdict& verdict) {
  return std::ranges::all_of(verdict.culprits, [&](std::int64_t rank) {
    const auto report = std::ranges::find(verdict.ranks, rank, &RankReport::rank);
    return report != verdict.ranks.end() && report->state == RankReport::State::kWaits;
  });
}

std::string deadlock_summary(const Verdict& verdict) {
  std::vector<std::int64_t> stuck;
  bool others_run = false;
  for (const RankReport& report : verdict.ranks) {
    if (report.state == RankReport::State::kWaits) stuck.push_back(report.rank);
    others_run = others_run || report.state == RankReport::State::kRuns;
  }
  const std::string culprits = fold_ranks(verdict.culprits);
  const std::string cause = verdict.cause.empty() ? "" : ": " + verdict.cause;
  if (all_wait(verdict)) {
    return (others_run ? "" : "no rank can advance, ") + culprits +
           (verdict.culprits.size() > 1 ? " wait for each other" : " waits for itself") + cause;
  }
  return (others_run ? fold_ranks(stuck) + " can never advance, " : "no rank can advance, ") +
         culprits + " missing" + cause;
}

}  // namespace

std::string summary(const Verdict& verdict) {
  switch (verdict.kind) {
    case VerdictKind::kMismatch:
      return fmt::format("mismatch: {} ({})",
                         verdict.cause.empty()
                             ? "the ranks of a group entered different collectives"
                             : verdict.cause,
                         fold_ranks(verdict.culprits));
    case VerdictKind::kDeadlock:
      return "deadlock: " + deadlock_summary(verdict);
    case VerdictKind::kRankFailed:
      return fmt::format("{} failed: {}", fold_ranks(verdict.culprits), verdict.cause);
    case VerdictKind::kTimeout:
      return "timeout: " + verdict.cause;
  }
  return "?";
}

namespace {

std::string duration_text(const RankReport& report) {
  return report.seconds > 0 ? fmt::format(" for {:.1f} s", report.seconds) : "";
}

// A wait for anything but a collective has no group.
std::string call_text(const RankReport& report) {
  std::string result = report.what;
  if (!report.op.empty()) result += " of " + report.op;
  if (!report.group.empty()) {
    result += fmt::format(" on group {}, call {}", report.group, report.call);
  }
  if (!report.where.empty()) result += ", at " + report.where;
  return result;
}

std::string describe(const RankReport& report) {
  switch (report.state) {
    case RankReport::State::kRuns:
      return "running" + duration_text(report) +
             (report.what.empty() ? "" : ", after " + call_text(report));
    case RankReport::State::kEnded:
      return "ended";
    case RankReport::State::kFailed:
      return "failed";
    case RankReport::State::kSilent:
      return "its process does not answer: it is stopped, or cut off";
    case RankReport::State::kWaits:
      break;
  }
  std::string result = "in " + call_text(report);
  if (report.seconds > 0) result += "," + duration_text(report);
  if (!report.missing.empty()) result += ", waiting for " + fold_ranks(report.missing);
  return result;
}

}  // namespace

std::string text(const Verdict& verdict) {
  struct Set {
    std::string what;
    std::vector<std::int64_t> ranks;
    std::int64_t alike = 0;
  };
  // Ordered by the first rank of each set.
  std::vector<Set> sets;
  std::map<std::string, std::size_t> index;
  for (const RankReport& report : verdict.ranks) {
    const auto [place, fresh] = index.try_emplace(describe(report), sets.size());
    if (fresh) sets.push_back({place->first, {}});
    Set& set = sets[place->second];
    set.ranks.push_back(report.rank);
    set.alike += report.alike;
  }
  std::string result;
  for (const Set& set : sets) {
    if (!result.empty()) result += '\n';
    result += fold_ranks(set.ranks);
    if (set.alike > 0) result += fmt::format(" and {} more like it", set.alike);
    result += ": " + set.what;
  }
  return result;
}

Error to_error(const Verdict& verdict) {
  Error error = Error(ErrorKind::kRuntime, summary(verdict))
                    .with("verdict", std::string(to_string(verdict.kind)))
                    .with("ranks", text(verdict));
  if (verdict.kind == VerdictKind::kTimeout) error.with("fix", kWaitedTooLong);
  const bool makes = std::ranges::any_of(verdict.ranks, [](const RankReport& rank) {
    return rank.state == RankReport::State::kWaits && rank.what.starts_with("split(");
  });
  if (verdict.kind == VerdictKind::kDeadlock && makes) {
    error.with("fix",
               "every rank of the world makes a mesh or a group: make it before the branch, and "
               "slice it there");
  }
  return error;
}

}  // namespace shardlab
