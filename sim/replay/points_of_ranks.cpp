// A point is kept until all ranks that have its key have come to it.
#include "sim/replay/points_of_ranks.h"

#include <algorithm>

namespace shardlab {

namespace {

// "up|aten.linear.default" of the key of a call, or of a gradient behind one, "up|Copy" of that of
// a function; empty: of another.
std::string call_in(const std::string& key) {
  const std::size_t begin = key.find(' ') + 1, end = key.find('|', key.find('|') + 1);
  const std::string kind = key.substr(0, begin);
  const bool of_call =
      kind == "call " || kind == "backward " || kind == "function " || kind == "gradients ";
  return of_call ? key.substr(begin, end - begin) : "";
}

bool is_call(const std::string& key) {
  return (key.starts_with("call ") || key.starts_with("function ")) &&
         key.find("[0", key.rfind('|')) != std::string::npos;
}

// Calls outside of modules; a rank may cut its own part where the whole needs no call, or an alias.
std::map<std::string, std::size_t> outside(const std::map<std::string, std::size_t>& counts) {
  std::map<std::string, std::size_t> all(counts.lower_bound("|"), counts.lower_bound("}"));
  std::erase_if(all, [](const auto& one) {
    const std::string_view op = bare_op(std::string_view(one.first).substr(1));
    return op == "alias" || op == "slice";
  });
  return all;
}

// Up to the gradient with this key, itself included.
std::size_t passes_to(const std::string& key) {
  return key.starts_with("gradient ") ? std::stoul(key.substr(key.rfind('|') + 1)) + 1 : 0;
}

}  // namespace

PointsOfRanks::PointsOfRanks(const PointsOfA& a, const RecordedProgram& program, PointNames names)
    : a_(a) {
  for (const auto& [key, parts] : a) {
    if (is_call(key)) ++calls_of_a_[call_in(key)];
    passes_of_a_ = std::max(passes_of_a_, passes_to(key));
  }
  for (std::size_t i = 0; i < program.events.size(); ++i) {
    const std::int32_t rank = program.events[i].rank;
    for (const ComparedPoint& point : names.named(i)) {
      if (rank >= 0) ++ranks_[point.key];
      if (is_call(point.key)) ++calls_[rank][call_in(point.key)];
      passes_ = std::max(passes_, passes_to(point.key));
    }
  }
  const Counts shared = calls_[-1];
  for (auto& [rank, calls] : calls_) {
    for (const auto& [call, count] : shared) calls[call] += rank < 0 ? 0 : count;
  }
}

bool PointsOfRanks::makes_other_calls() const {
  return std::ranges::any_of(calls_, [&](const auto& one) {
    return one.first >= 0 && outside(one.second) != outside(calls_of_a_);
  });
}

bool PointsOfRanks::whole(ComparedPoint& point) {
  const auto all = ranks_.find(point.key);
  const bool shared = all == ranks_.end();
  const std::string call = call_in(point.key);
  const std::int32_t rank = shared ? -1 : static_cast<std::int32_t>(point.ranks.at(0));
  if (!call.empty() && !is_as_often(rank, call)) return false;
  if (is_loss(point) && met_.contains(point.value)) return false;
  if (point.kind == PointKind::kResult) met_.insert(point.value);
  if (shared || all->second == 1) return true;
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
  if (point.ranks.size() == all->second) {
    if (point.key.starts_with("module |")) keep_whole_model(point);
    return true;
  }
  before = point;
  return false;
}

// Stages before the last give something else under the name of the model.
void PointsOfRanks::keep_whole_model(ComparedPoint& point) const {
  const auto whole = a_.find(point.key);
  if (whole == a_.end() || whole->second.empty()) return;
  const Dims& all = whole->second[0].shape;
  const auto gives_whole = [&](const PointPart& part) {  // or some of its rows
    return part.shape.size() == all.size() && !all.empty() &&
           std::equal(all.begin() + 1, all.end(), part.shape.begin() + 1);
  };
  if (std::ranges::none_of(point.parts, gives_whole)) return;
  leave_out(point, [&](std::size_t i) { return !gives_whole(point.parts[i]); });
}

// Outside of modules all calls of a rank have to be as many, or those of a line on all ranks that
// come to it: a stage calls parts of what A calls there. A call too few on all ranks takes the
// places of its own kind alone.
bool PointsOfRanks::is_as_often(std::int32_t rank, const std::string& call) const {
  const auto of_rank = calls_.find(rank);
  if (of_rank == calls_.end()) return false;
  const Counts& calls = of_rank->second;
  const bool by_number = call.starts_with("|") && !is_key_by_line(call);
  if (rank >= 0 && by_number) return outside(calls) == outside(calls_of_a_);
  const auto own = calls.find(call), other = calls_of_a_.find(call);
  if (own == calls.end() || other == calls_of_a_.end()) return false;
  const auto parts = [&](const auto& one) {
    const auto made = one.second.find(call);
    return made != one.second.end() && made->second != own->second;
  };
  if (is_key_by_line(call) && std::ranges::any_of(calls_, parts)) return false;
  return rank < 0 ? own->second * passes_of_a_ == other->second * passes_
                  : own->second == other->second;
}

}  // namespace shardlab
