// Ranks that depend on their number make unequal calls; a running number would pair calls that do
// not belong together. A collective does nothing on one device: its whole value is its operand's.
#include "sim/verify/labels/matched_calls.h"

#include <algorithm>
#include <map>

#include "schema/op_row.h"
#include "sim/verify/held_numbers.h"

namespace shardlab {

namespace {

using Values = std::vector<GlobalValue> LoggedCall::*;
using Kind = LoggedCall::Kind;
using Numbered = std::map<CallKey, const LoggedCall*>;

Numbered numbered(const std::vector<LoggedCall>& calls) {
  Numbered result;
  for (const LoggedCall& call : calls) result[call.key] = &call;
  return result;
}

using Sources = std::vector<const Labels*>;  // of the tensors that a value is made of

bool is_cut_in(const Sources& sources, std::size_t dim, const auto& way) {
  return std::ranges::any_of(sources, [&](const Labels* labels) {
    return std::ranges::any_of(
        *labels, [&](const auto& label) { return label && way(label->placements[dim]); });
  });
}

// Equal terms are a replica that is off by a factor, unless they are counts or sums of pieces, or
// made of such terms. A mask looks like a term only by chance, and numbers like a maximum, unless
// the call gives one or has taken one; sorted pieces look like dealt rows.
bool is_by_chance(const Label& label, const std::vector<GlobalValue>& held,
                  const GlobalValue& whole, const std::string& name, bool reduced,
                  const Sources& sources, const MeshLayout& layout) {
  if (label.by_rows() && name.find("sort") != std::string::npos) return true;
  const bool gives = name.find("max") != name.npos || name.find("min") != name.npos ||
                     name == "any" || name == "all";
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    const Placement& placement = label.placements[dim];
    if (!placement.is_partial()) continue;
    const auto is_other = [](const Placement& one) { return !one.is_replicate(); };
    const auto is_same = [&](const Placement& one) { return one == placement; };
    const bool taken = gives || is_cut_in(sources, dim, is_same);
    const bool adds = whole.is_integral() || name == "sum";
    const bool counts = !reduced && (is_cut_in(sources, dim, is_same) ||
                                     (adds && is_cut_in(sources, dim, is_other)));
    if (!counts && alike_along(held, layout, dim)) return true;
    if (is_extreme(placement.op) ? !taken : whole.meta.dtype == DType::kBool) return true;
  }
  return false;
}

class Matching {
 public:
  Matching(const CallLog& ranks, const std::vector<LoggedCall>& alone, const MeshLayout& layout,
           double relative)
      : layout_(layout), relative_(relative), single_(numbered(alone)) {
    for (std::int64_t i = 0; i < layout.size(); ++i) {
      by_index_.push_back(
          numbered(ranks.by_rank()[static_cast<std::size_t>(layout.rank_at_index(i))]));
    }
    const auto& first = ranks.by_rank()[static_cast<std::size_t>(layout.rank_at_index(0))];
    for (std::size_t i = 0; i < first.size(); ++i) {
      places_.push_back(-1);
      if (auto call = matched(first[i])) {
        places_.back() = static_cast<int>(calls_.size());
        calls_.push_back(std::move(*call));
      }
    }
  }
  std::vector<MatchedCall> calls() && { return std::move(calls_); }

 private:
  std::optional<MatchedCall> matched(const LoggedCall& first) {
    MatchedCall call;
    for (const Numbered& calls : by_index_) {
      const auto own = calls.find(first.key);
      if (own == calls.end() || !own->second->plain) return std::nullopt;
      call.held.push_back(own->second);
    }
    for (const int producer : first.producers) {
      call.producers.push_back(producer < 0 ? -1 : places_[static_cast<std::size_t>(producer)]);
    }
    const auto other = single_.find(first.key);
    const bool here = other != single_.end() && other->second->plain;
    if (first.kind == Kind::kToLocal) {
      put_together_own(call);
    } else if (first.kind == Kind::kCollective || (!here && first.name() == "slice")) {
      if (!pass_on(call)) return std::nullopt;  // a slice of everything is no call
    } else if (here) {
      call.alone = other->second;
      call.whole_operands.assign(other->second->operands.begin(), other->second->operands.end());
      call.whole_results.assign(other->second->results.begin(), other->second->results.end());
    } else {
      return std::nullopt;
    }
    Sources before;
    for (const int producer : call.producers) {
      if (producer >= 0) before.push_back(&calls_[static_cast<std::size_t>(producer)].results);
    }
    call.operands = labels_of(call, &LoggedCall::operands, call.whole_operands, before);
    call.results = labels_of(call, &LoggedCall::results, call.whole_results, {&call.operands});
    if (first.kind == Kind::kCollective && has_other_terms(call)) call.results[0].reset();
    return call;
  }

  // A collective over two ranks that hold the same terms of a sum doubles them: they then look like
  // terms of an average.
  bool has_other_terms(const MatchedCall& call) const {
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      if (!call.operands[0] || !call.results[0]) return false;
      const Placement &given = call.operands[0]->placements[dim],
                      &made = call.results[0]->placements[dim];
      if (given.is_partial() && made.is_partial() && given.op != made.op) return true;
    }
    return false;
  }

  // Only pieces on the whole mesh.
  void put_together_own(MatchedCall& call) const {
    const DTensorSpec& spec = *call.own().spec;
    call.whole_results.emplace_back();
    if (spec.layout() != &layout_ || spec.has_strided()) return;
    const Label label{spec.placements(), spec.order()};
    const auto held = held_of(call, &LoggedCall::results, 0);
    call.whole_results[0] = put_together(held, label, layout_);
  }

  // The operand is what a step before it made, with views in between.
  bool pass_on(MatchedCall& call) const {
    std::optional<GlobalValue>& whole = call.whole_operands.emplace_back();
    for (int step = call.producers.empty() ? -1 : call.producers[0]; step >= 0 && !whole;) {
      const MatchedCall& producer = calls_[static_cast<std::size_t>(step)];
      const std::vector<GlobalValue>& made = producer.own().results;
      const auto at = std::ranges::find_if(made, [&](const GlobalValue& result) {
        return same_numbers(result, call.own().operands[0]);
      });
      const auto place = static_cast<std::size_t>(at - made.begin());
      if (place < producer.whole_results.size()) whole = producer.whole_results[place];
      step = producer.producers.empty() || at != made.end() ? -1 : producer.producers[0];
    }
    call.whole_results = call.whole_operands;
    return whole.has_value();
  }

  Labels labels_of(const MatchedCall& call, Values values,
                   const std::vector<std::optional<GlobalValue>>& wholes,
                   const Sources& sources) const {
    Labels result;
    const bool reduced = values == &LoggedCall::results && call.own().kind == Kind::kCollective;
    for (std::size_t i = 0; i < wholes.size(); ++i) {
      const std::vector<GlobalValue> held = held_of(call, values, i);
      std::optional<Label>& label = result.emplace_back();
      if (held.size() != call.held.size() || !wholes[i]) continue;
      label = label_of(held, *wholes[i], layout_, relative_);
      const std::string name = call.own().name();
      if (label && is_by_chance(*label, held, *wholes[i], name, reduced, sources, layout_)) {
        label.reset();
      }
    }
    return result;
  }

  const MeshLayout& layout_;
  const double relative_;
  const Numbered single_;
  std::vector<Numbered> by_index_;
  std::vector<int> places_;  // of the first rank's steps among the matched ones
  std::vector<MatchedCall> calls_;
};

}  // namespace

std::vector<GlobalValue> held_of(const MatchedCall& call, Values values, std::size_t place) {
  std::vector<GlobalValue> held;
  for (const LoggedCall* own : call.held) {
    if (place < (own->*values).size()) held.push_back((own->*values)[place]);
  }
  return held;
}

bool by_rank(const MatchedCall& call) {
  return std::ranges::any_of(
      call.held, [&](const LoggedCall* own) { return own->numbers != call.own().numbers; });
}

bool all_alike(const std::vector<GlobalValue>& held) {
  return std::ranges::all_of(
      held, [&](const GlobalValue& value) { return same_numbers(value, held[0]); });
}

std::vector<MatchedCall> matched_calls(const CallLog& ranks, const CallLog& alone,
                                       const MeshLayout& layout, double relative, int one) {
  return Matching(ranks, alone.by_rank()[static_cast<std::size_t>(one)], layout, relative).calls();
}

}  // namespace shardlab
