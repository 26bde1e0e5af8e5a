// Visits of one kind do the same, so that each kind is counted once for each rank.
#include "sim/report/rank_work.h"

#include <map>
#include <utility>

#include "base/text.h"
#include "sim/report/op_work.h"

namespace shardlab {

namespace {

struct Kind {
  LineVisit first;
  double times = 0;
};

std::map<int, Kind> kinds_of(const std::vector<LineVisit>& visits) {
  std::map<int, Kind> kinds;
  for (const LineVisit& visit : visits) {
    ++kinds.try_emplace(visit.kind, Kind{visit}).first->second.times;
  }
  return kinds;
}

// Ranks outside of the mesh make other calls, and compute nothing.
bool same_calls(const Run& run) {
  const auto reporter = run.shapes_only() ? 0 : static_cast<std::size_t>(run.reporting_rank);
  const std::uint64_t calls = run.counts[reporter].calls;
  for (std::size_t rank = 0; rank < run.counts.size(); ++rank) {
    const bool outside = !run.shapes_only() &&
                         !run.layout->coordinate_of(static_cast<std::int64_t>(rank)).has_value();
    if (!outside && run.counts[rank].calls != calls) return false;
  }
  return calls != 0;
}

bool multiplies_plain_tensors(const Run& run) {
  for (const TraceEvent& event : run.events) {
    if (event.kind == TraceEvent::Kind::kLocal && work_of(event, RankPlace{}).flops > 0)
      return true;
  }
  return false;
}

OpWork work_at(const Run& run, const std::map<int, Kind>& kinds, const Coordinate& coordinate) {
  OpWork all;
  for (const auto& [number, kind] : kinds) {
    const std::size_t count = kind.first.end - kind.first.begin;
    const auto events = std::span(run.events).subspan(kind.first.begin, count);
    const OpWork work = work_of(events, {run.layout, coordinate});
    all.flops += kind.times * work.flops;
    all.bytes += kind.times * work.bytes;
  }
  return all;
}

}  // namespace

std::vector<RankWork> rank_works(const Run& run, const std::vector<LineVisit>& visits) {
  if (!same_calls(run) || multiplies_plain_tensors(run)) return {};
  const std::map<int, Kind> kinds = kinds_of(visits);
  std::vector<RankWork> works;
  for (const ClassReport& ranks : run.classes) {
    const auto coordinate = run.layout->coordinate_of(ranks.first_rank);
    if (!coordinate) continue;
    const OpWork work = work_at(run, kinds, *coordinate);
    works.push_back({ranks.where.empty() ? "all" : ranks.where, work.flops, work.bytes});
  }
  if (run.shapes_only()) return works;
  std::map<std::pair<double, double>, std::vector<std::int64_t>> equal;
  std::vector<std::pair<double, double>> order;
  for (std::int64_t i = 0; i < run.layout->size(); ++i) {
    const OpWork work = work_at(run, kinds, run.layout->coordinate_at_index(i));
    auto& ranks = equal[{work.flops, work.bytes}];
    if (ranks.empty()) order.emplace_back(work.flops, work.bytes);
    ranks.push_back(run.layout->rank_at_index(i));
  }
  for (const auto& amount : order) {
    works.push_back({rank_ranges(equal[amount]), amount.first, amount.second});
  }
  return works;
}

}  // namespace shardlab
