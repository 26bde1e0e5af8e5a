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
