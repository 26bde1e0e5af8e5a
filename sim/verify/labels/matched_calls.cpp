// Ranks that depend on their number make unequal calls; a running number would pair calls that do
// not belong together.
#include "sim/verify/labels/matched_calls.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace shardlab {

namespace {

using Values = std::vector<GlobalValue> LoggedCall::*;
using Numbered = std::map<std::tuple<std::string, int, int, bool, std::int64_t>, const LoggedCall*>;

// Calls by the data that is the same on all ranks.
class Numbering {
 public:
  Numbered::key_type key_of(const LoggedCall& call) {
    const bool backward = call.pass == Pass::kBackward;
    const auto place = std::tuple(call.row->op.name(), call.position.line, call.position.column);
    const auto& [name, line, column] = place;
    return {name, line, column, backward, times_[{name, line, column, backward}]++};
  }

 private:
  std::map<std::tuple<std::string, int, int, bool>, std::int64_t> times_;
};

Numbered numbered(const std::vector<LoggedCall>& calls) {
  Numbering numbering;
  Numbered result;
  for (const LoggedCall& call : calls) result[numbering.key_of(call)] = &call;
  return result;
}

bool same_numbers(const GlobalValue& a, const GlobalValue& b) {
  return a.reals == b.reals && a.integers == b.integers;
}

bool alike_along(const std::vector<GlobalValue>& held, const MeshLayout& layout, std::size_t dim) {
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    Coordinate coordinate = layout.coordinate_at_index(i);
    coordinate[dim] = 0;
    const auto first = static_cast<std::size_t>(layout.index_of(coordinate));
    if (!same_numbers(held[static_cast<std::size_t>(i)], held[first])) return false;
  }
  return true;
}

// Equal terms are a replica that is off by a factor.
bool has_equal_terms(const Label& label, const std::vector<GlobalValue>& held,
                     const MeshLayout& layout) {
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    if (label.placements[dim].is_partial() && alike_along(held, layout, dim)) return true;
  }
  return false;
}

// A mask looks like a term only by chance, and one rank's value like a maximum only by chance,
// unless the call is a maximum.
bool is_by_chance(const Label& label, const std::vector<GlobalValue>& held,
                  const GlobalValue& whole, const std::string& name, double relative) {
  const bool gives = name.find("max") != std::string::npos || name.find("min") != std::string::npos;
  return std::ranges::any_of(label.placements, [&](const Placement& placement) {
    if (!placement.is_partial()) return false;
    if (whole.meta.dtype == DType::kBool) return true;
    return is_extreme(placement.op) && !gives && one_holds_all(held, whole, relative);
  });
}

Labels labels_of(const MatchedCall& call, Values values, const MeshLayout& layout,
                 double relative) {
  Labels result;
  for (std::size_t i = 0; i < (call.alone->*values).size(); ++i) {
    const std::vector<GlobalValue> held = held_of(call, values, i);
    std::optional<Label>& label = result.emplace_back();
    if (held.size() != call.held.size()) continue;
    const GlobalValue& whole = (call.alone->*values)[i];
    label = label_of(held, whole, layout, relative);
    if (label && (has_equal_terms(*label, held, layout) ||
                  is_by_chance(*label, held, whole, name_of(*call.alone), relative))) {
      label.reset();
    }
  }
  return result;
}

}  // namespace

std::vector<GlobalValue> held_of(const MatchedCall& call, Values values, std::size_t place) {
  std::vector<GlobalValue> held;
  for (const LoggedCall* own : call.held) {
    if (place < (own->*values).size()) held.push_back((own->*values)[place]);
  }
  return held;
}

bool all_alike(const std::vector<GlobalValue>& held) {
  return std::ranges::all_of(
      held, [&](const GlobalValue& value) { return same_numbers(value, held[0]); });
}

std::string name_of(const LoggedCall& call) {
  std::string name = call.row->op.base.substr(call.row->op.base.rfind(':') + 1);
  name.erase(0, name.find_first_not_of('_'));
  constexpr std::string_view kForward = "_forward";
  if (name.ends_with(kForward)) name.resize(name.size() - kForward.size());
  return name;
}

void for_each_matched(const CallLog& ranks, const CallLog& alone, const MeshLayout& layout,
                      double relative, const std::function<bool(MatchedCall&)>& visit) {
  const auto calls_at = [&](std::int64_t index) -> const std::vector<LoggedCall>& {
    return ranks.by_rank()[static_cast<std::size_t>(layout.rank_at_index(index))];
  };
  std::vector<Numbered> by_index;
  for (std::int64_t i = 0; i < layout.size(); ++i) by_index.push_back(numbered(calls_at(i)));
  const Numbered single = numbered(alone.by_rank()[0]);
  Numbering numbering;
  for (const LoggedCall& first : calls_at(0)) {
    const auto key = numbering.key_of(first);
    const auto other = single.find(key);
    MatchedCall call;
    call.alone = other != single.end() ? other->second : nullptr;
    for (const Numbered& calls : by_index) {
      const auto own = calls.find(key);
      if (own != calls.end() && own->second->plain) call.held.push_back(own->second);
    }
    if (call.alone == nullptr || call.held.size() != by_index.size()) continue;
    call.operands = labels_of(call, &LoggedCall::operands, layout, relative);
    call.results = labels_of(call, &LoggedCall::results, layout, relative);
    if (!visit(call)) return;
  }
}

}  // namespace shardlab
