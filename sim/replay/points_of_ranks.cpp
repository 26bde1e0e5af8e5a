// A point is kept until all ranks that have its key have come to it.
#include "sim/replay/points_of_ranks.h"

#include <algorithm>
#include <utility>

namespace shardlab {

namespace {

// "up|aten.linear.default" of the key of a call, or of a gradient behind one; empty: of another.
std::string call_in(const std::string& key) {
  const std::size_t begin = key.find(' ') + 1, end = key.find('|', key.find('|') + 1);
  const bool of_call = key.starts_with("call ") || key.starts_with("backward ");
  return of_call ? key.substr(begin, end - begin) : "";
}

}  // namespace

PointsOfRanks::PointsOfRanks(const PointsOfA& a, const RecordedProgram& program, PointNames names) {
  const auto own = [](const RecordedEvent& event) { return event.rank >= 0; };
  if (std::ranges::none_of(program.events, own)) return;
  for (const auto& [key, parts] : a) {
    if (key.starts_with("call ") && key.ends_with("[0]")) ++calls_of_a_[call_in(key)];
  }
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const std::int32_t rank = program.events[i].rank;
    for (const ComparedPoint& point : names.named(i)) {
      if (rank < 0) continue;
      ++ranks_[point.key];
      const bool call = point.key.starts_with("call ") && point.key.ends_with("[0]");
      if (call) ++calls_[static_cast<std::size_t>(rank)][call_in(point.key)];
    }
  }
}

bool PointsOfRanks::whole(ComparedPoint& point) {
  const auto all = ranks_.find(point.key);
  if (all == ranks_.end()) return true;
  const std::string call = call_in(point.key);
  if (!call.empty() && !is_as_often(calls_[point.ranks.at(0)], call)) return false;
  if (all->second == 1) return true;
  const auto [begun, first] = begun_.try_emplace(point.key, point);
  if (first) return false;
  ComparedPoint& before = begun->second;
  before.of_others.emplace_back(before.event, before.value);
  const auto after = std::ranges::upper_bound(before.ranks, point.ranks.at(0));
  const bool known = before.parts.size() == before.ranks.size() && point.parts.size() == 1;
  if (!known) before.parts.clear();
  if (known) {
    before.parts.insert(before.parts.begin() + (after - before.ranks.begin()), point.parts[0]);
  }
  before.ranks.insert(after, point.ranks.at(0));
  point.of_others = before.of_others;
  point.ranks = before.ranks;
  point.parts = before.parts;
  if (point.ranks.size() == all->second) return true;
  before = point;
  return false;
}

// Outside of modules all calls have to be as many: a stage calls parts of what A calls there.
bool PointsOfRanks::is_as_often(const Counts& calls, const std::string& call) const {
  const auto outside = [](const Counts& counts) {
    return Counts(counts.lower_bound("|"), counts.lower_bound("}"));
  };
  if (call.starts_with("|")) return outside(calls) == outside(calls_of_a_);
  const auto own = calls.find(call), other = calls_of_a_.find(call);
  return own != calls.end() && other != calls_of_a_.end() && own->second == other->second;
}

}  // namespace shardlab
