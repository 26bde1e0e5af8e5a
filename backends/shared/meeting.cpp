// Who is to blame: ranks are put into sets of compatible calls, and all but the largest set are
// named; if two sets are equally large, everybody is. Where all calls are compatible and still do
// not fit, it is the ranks in most pairs that do not.
#include "backends/shared/meeting.h"

#include <algorithm>
#include <string>
#include <utility>

namespace shardlab::backends {

void describe(const Meeting& meeting, const Call& call, RankReport& report) {
  report.what = signature(call);
  if (call.op_name != nullptr) report.op = call.op_name;
  report.group = std::string(meeting.group);
  report.call = static_cast<std::int64_t>(meeting.sequence);
  if (call.position.file != nullptr) {
    report.where = fmt::format("{}:{}", call.position.file, call.position.line);
  }
  for (std::size_t i = 0; i < meeting.ranks.size(); ++i) {
    if (meeting.calls[i] == nullptr) report.missing.push_back(meeting.ranks[i]);
  }
  std::ranges::sort(report.missing);
}

bool torn(const Meeting& meeting) {
  const Call* first = nullptr;
  for (const Call* call : meeting.calls) {
    if (call == nullptr) continue;
    if (first == nullptr) first = call;
    if (!compatible(*first, *call)) return true;
  }
  return false;
}

namespace {

// Larger groups are not looked at pair by pair: all their ranks are named.
constexpr std::size_t kMostRanksInPairs = 1024;

// All have come with compatible calls.
std::vector<std::int64_t> in_most_unfit_pairs(const Meeting& meeting) {
  const std::size_t size = meeting.calls.size();
  std::vector<std::int64_t> unfit(size, 0);
  for (std::size_t from = 0; from < size; ++from) {
    for (std::size_t to = 0; to < size; ++to) {
      if (pair_fits(meeting.calls, from, to)) continue;
      ++unfit[from];
      if (from != to) ++unfit[to];
    }
  }
  const std::int64_t most = std::ranges::max(unfit);
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < size; ++i) {
    if (unfit[i] == most) result.push_back(meeting.ranks[i]);
  }
  std::ranges::sort(result);
  return result;
}

}  // namespace

std::string cause_of(const Meeting& meeting) {
  const Call* first = nullptr;
  std::string_view found;
  for (const Call* call : meeting.calls) {
    if (call == nullptr) continue;
    if (first == nullptr) first = call;
    if (found.empty()) found = difference(*first, *call);
    if (first->kind != call->kind) {
      return fmt::format("the ranks of group {} entered different collectives", meeting.group);
    }
  }
  if (found.empty()) found = "parts that do not fit together";
  return fmt::format("the ranks of group {} entered {} with {}", meeting.group,
                     to_string(first->kind), found);
}

std::vector<std::int64_t> odd_ones(const Meeting& meeting) {
  // Sets of calls that can meet, by their first member.
  std::vector<std::pair<const Call*, std::vector<std::int64_t>>> sets;
  for (std::size_t i = 0; i < meeting.ranks.size(); ++i) {
    const Call* call = meeting.calls[i];
    if (call == nullptr) continue;
    const auto set = std::ranges::find_if(
        sets, [&](const auto& known) { return compatible(*known.first, *call); });
    if (set == sets.end()) {
      sets.push_back({call, {meeting.ranks[i]}});
    } else {
      set->second.push_back(meeting.ranks[i]);
    }
  }
  const bool all_here = std::ranges::find(meeting.calls, nullptr) == meeting.calls.end();
  const bool few = meeting.calls.size() <= kMostRanksInPairs;
  if (sets.size() == 1 && all_here && few) return in_most_unfit_pairs(meeting);
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

Verdict mismatch(const Meeting& meeting) {
  Verdict verdict;
  verdict.kind = VerdictKind::kMismatch;
  verdict.culprits = odd_ones(meeting);
  verdict.cause = cause_of(meeting);
  for (std::size_t i = 0; i < meeting.ranks.size(); ++i) {
    RankReport report;
    report.rank = meeting.ranks[i];
    report.state = RankReport::State::kWaits;
    describe(meeting, *meeting.calls[i], report);
    verdict.ranks.push_back(std::move(report));
  }
  std::ranges::sort(verdict.ranks, {}, &RankReport::rank);
  return verdict;
}

std::vector<std::int64_t> missed(std::span<const RankReport> reports) {
  std::vector<bool> awaited(reports.size());
  for (const RankReport& report : reports) {
    for (const std::int64_t rank : report.missing) awaited[static_cast<std::size_t>(rank)] = true;
  }
  std::vector<std::int64_t> all;
  std::vector<std::int64_t> ended;
  for (const RankReport& report : reports) {
    if (!awaited[static_cast<std::size_t>(report.rank)]) continue;
    all.push_back(report.rank);
    if (report.state == RankReport::State::kEnded) ended.push_back(report.rank);
  }
  return ended.empty() ? all : ended;
}

}  // namespace shardlab::backends
