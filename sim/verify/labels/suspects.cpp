// Steps are looked at in the order of the first rank. All before the first mistake is right, so
// that few have lost anything; of these the ones that are meant to, such as the parts of a
// logsumexp that is merged later, do not mend the value.
#include "sim/verify/labels/suspects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "mesh/local_shape.h"
#include "schema/op_row.h"
#include "sim/language/run/call_names.h"
#include "sim/verify/compare.h"
#include "sim/verify/held_numbers.h"
#include "sim/verify/labels/row_order.h"

namespace shardlab {

namespace {

using Kind = LoggedCall::Kind;
using Numbers = std::vector<GlobalValue>;

constexpr std::size_t kMostTrials = 24;

// The number of dims of `from` whose product each dim of `to` is; nothing if `to` is no flattening.
std::optional<std::vector<std::size_t>> groups_of(const Dims& from, const Dims& to) {
  std::vector<std::size_t> groups;
  std::size_t at = 0;
  for (const std::int64_t size : to) {
    std::int64_t product = 1;
    const std::size_t begin = at;
    while (at < from.size() && (at == begin || product < size)) product *= from[at++];
    if (product != size) return std::nullopt;
    groups.push_back(at - begin);
  }
  return at == from.size() ? std::optional(groups) : std::nullopt;
}

// Rows of a flattened piece are no piece of the flattened whole, and right all the same.
bool flattens(const MatchedCall& call) {
  const LoggedCall& own = call.own();
  const bool one = own.kind == Kind::kOp && own.operands.size() == 1 && own.results.size() == 1;
  if (!one || !own.row->op.is_view()) return false;
  const auto whole =
      groups_of(call.whole_operands[0]->meta.shape, call.whole_results[0]->meta.shape);
  return whole && groups_of(own.operands[0].meta.shape, own.results[0].meta.shape) == whole;
}

// The whole cut, or dealt, by a label.
Numbers parts_of(const GlobalValue& whole, const Placements& placements, const MeshLayout& layout) {
  Placements cut = placements;
  for (Placement& placement : cut) {
    if (placement.is_partial()) placement = Placement::replicate();
  }
  const DTensorSpec* spec = layout.arena().spec(&layout, cut, whole.meta);
  Numbers parts;
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    const Coordinate at = layout.coordinate_at_index(i);
    const LocalView view = local_view(*spec, at);
    GlobalValue& part = parts.emplace_back();
    Dims shape;
    for (const auto& dim : view.dims) shape.push_back(dim.local_size());
    part.meta = contiguous_meta(shape, whole.meta.dtype);
    bool first = true;  // of the ranks among which it is dealt: the others have nothing to add
    for (std::size_t dim = 0; dim < at.size(); ++dim) {
      first = first && (!placements[dim].is_partial() || at[dim] == 0);
    }
    const std::size_t width = is_complex(whole.meta.dtype) ? 2 : 1;
    for_each_element(view, [&](std::size_t, std::size_t global) {
      if (whole.is_integral()) return part.integers.push_back(first ? whole.integers[global] : 0);
      for (std::size_t k = 0; k < width; ++k) {
        part.reals.push_back(first ? whole.reals[global * width + k] : 0);
      }
    });
  }
  return parts;
}

// The whole with the rows of an operand that ranks took in an order of their own.
std::optional<GlobalValue> as_dealt(const GlobalValue& whole, const Label& label) {
  const auto cut =
      std::ranges::find_if(label.placements, [](const Placement& p) { return p.is_shard(); });
  if (!label.by_rows() || cut == label.placements.end()) return std::nullopt;
  const auto dim = static_cast<std::size_t>(cut->dim);
  if (whole.meta.shape[dim] != std::ssize(label.rows)) return std::nullopt;
  return in_order(whole, dim, label.rows);
}

// The same step of all passes of a loop.
bool same_place(const MatchedCall& call, CallKey key) {
  std::get<4>(key) = std::get<4>(call.own().key);
  return key == call.own().key;
}

std::vector<std::vector<std::size_t>> by_place(const std::vector<std::size_t>& all,
                                               const std::vector<MatchedCall>& calls) {
  std::vector<std::vector<std::size_t>> groups;
  for (const std::size_t step : all) {
    const auto known = std::ranges::find_if(groups, [&](const std::vector<std::size_t>& group) {
      return same_place(calls[group.front()], calls[step].own().key);
    });
    if (known == groups.end()) {
      groups.push_back({step});
    } else {
      known->push_back(step);
    }
  }
  return groups;
}

// The numbers of ranks over which a program may average.
std::set<double> ranks_averaged(const MeshLayout& layout) {
  std::set<double> factors = {1};
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    for (const double factor : std::set<double>(factors)) {
      factors.insert(factor * static_cast<double>(layout.size(dim)));
    }
  }
  factors.erase(1);
  return factors;
}

GlobalValue times(GlobalValue value, double factor) {
  for (double& number : value.reals) number *= factor;
  return value;
}

// Gradients, and averages that are added up, are divided by the number of ranks behind it.
bool is_scaled_later(const MatchedCall& call) {
  return call.own().pass == Pass::kBackward ||
         (call.own().kind == Kind::kCollective && call.operands[0] &&
          call.operands[0]->has_terms() && call.operands[0]->is_average());
}

// The last form as many times as ranks may be averaged.
void add_scaled(const MeshLayout& layout, std::vector<Form>& forms) {
  const Form whole = forms.back();
  for (const double factor : ranks_averaged(layout)) {
    Form& scaled = forms.emplace_back(Form{whole.placements, {}, factor});
    for (const GlobalValue& part : whole.parts) scaled.parts.push_back(times(part, factor));
  }
}

// Results that the ranks might hold in place of a lost one, by its shapes: pieces as operands are
// cut, pieces in any other way, the whole on all ranks, terms of it.
std::vector<Form> forms_of(const MatchedCall& call, std::size_t result, const MeshLayout& layout) {
  const GlobalValue& whole = *call.whole_results[result];
  const Numbers held = held_of(call, &LoggedCall::results, result);
  std::vector<Form> forms;
  // A view into sizes of the whole has other sizes on a piece.
  const bool sized = call.own().kind == Kind::kOp && call.own().name().ends_with("view");
  const auto add = [&](const Placements& placements, const GlobalValue& of) {
    const bool known = std::ranges::find(forms, placements, &Form::placements) != forms.end();
    if (known && &of == &whole) return;
    Numbers parts = parts_of(of, placements, layout);
    if (parts.size() != held.size()) return;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Dims &part = parts[i].meta.shape, &own = held[i].meta.shape;
      if (part != own && !(sized && product(part) == product(own))) return;
    }
    forms.push_back({placements, std::move(parts)});
    if (is_scaled_later(call) && !whole.is_integral()) add_scaled(layout, forms);
  };
  const auto dims = static_cast<std::int64_t>(whole.meta.shape.size());
  const auto valid = [&](const Placement& p) { return !p.is_shard() || p.dim < dims; };
  for (const auto& label : call.operands) {
    if (!label || !std::ranges::all_of(label->placements, valid) || label->has_terms()) continue;
    if (const auto dealt = as_dealt(whole, *label)) add(label->placements, *dealt);
    add(label->placements, whole);
  }
  Placements tried(layout.ndim(), Placement::replicate());
  const std::function<void(std::size_t)> each = [&](std::size_t dim) {
    if (dim == tried.size()) return add(tried, whole);
    for (std::int64_t cut = -1; cut < dims; ++cut) {
      tried[dim] = cut < 0 ? Placement::replicate() : Placement::shard(cut);
      each(dim + 1);
    }
  };
  if (layout.ndim() <= 3) each(0);
  if (whole.meta.dtype == DType::kBool) return forms;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    Placements terms(layout.ndim(), Placement::replicate());
    terms[dim] = Placement::partial(ReduceOp::kSum);
    const bool apart = std::ranges::any_of(call.operands, [&](const auto& label) {
      return !label || !label->placements[dim].is_replicate();
    });
    if (apart || call.operands.empty()) add(terms, whole);
  }
  for (const auto& label : call.operands) {  // terms of what another mesh dim cuts
    const auto fits = [&](const Placement& p) {
      return valid(p) && (!p.is_partial() || p.op == ReduceOp::kSum);
    };
    if (label && label->has_terms() && std::ranges::all_of(label->placements, fits)) {
      add(label->placements, whole);
    }
  }
  return forms;
}

// All terms of a label put together.
Form reduced(const Label& label, const GlobalValue& whole, const MeshLayout& layout) {
  Form form{label.placements, {}};
  for (Placement& placement : form.placements) {
    if (placement.is_partial()) placement = Placement::replicate();
  }
  form.parts = parts_of(whole, form.placements, layout);
  return form;
}

std::vector<ChangedResult> changes_of(const MatchedCall& call,
                                      const std::vector<const Form*>& forms,
                                      const MeshLayout& layout) {
  std::vector<ChangedResult> changes;
  for (std::size_t k = 0; k < forms.size(); ++k) {
    if (forms[k] == nullptr) continue;
    ChangedResult change{call.own().key, k, {}};
    for (std::int64_t i = 0; i < layout.size(); ++i) {
      const auto rank = static_cast<std::size_t>(layout.rank_at_index(i));
      if (change.values.size() <= rank) change.values.resize(rank + 1);
      change.values[rank] = forms[k]->parts[static_cast<std::size_t>(i)];
    }
    changes.push_back(std::move(change));
  }
  return changes;
}

class Accuser {
 public:
  explicit Accuser(Suspicions& of)
      : of_(of), calls_(of.calls), layout_(*of.layout), relative_(of.relative) {}

  std::optional<Cause> first() {
    const std::vector<std::vector<std::size_t>> groups = by_place(suspects(), calls_);
    for (const auto& passes : groups) {
      if (auto cause = together(passes)) return cause;
    }
    for (const auto& passes : groups) {
      if (auto cause = reduced_before(passes)) return cause;
    }
    auto made = of_.explained ? std::nullopt : reduced_where_made();
    if (!made) made = one_after_the_other();
    const bool asks = !of_.explained && of_.exchanged && (!made || needed_ > 1);
    auto exchanged = asks ? of_.exchanged() : std::nullopt;
    return exchanged ? exchanged : made;
  }

 private:
  /// A step and its results as they should be.
  struct Repair {
    std::size_t step;
    std::size_t told;  ///< the step that is accused
    Form form;
    std::vector<ChangedResult> changes;
    std::optional<Cause> cause = {};

    bool is_in(const std::vector<MatchedCall>& calls) const {
      return step < calls.size() && calls[step].own().key == changes.front().key;
    }
  };

  // A step whose result no pieces or terms fit, by its shapes, stands behind the next one.
  std::vector<std::size_t> suspects() {
    std::vector<std::size_t> found;
    behind_.clear();
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (!of_.has(calls_[i]) || !has_lost(i)) continue;
      found.push_back(i);
    }
    return found;
  }

  bool mends(const std::vector<Repair>& repairs, std::size_t without = SIZE_MAX) {
    std::vector<ChangedResult> changes;
    for (std::size_t i = 0; i < repairs.size(); ++i) {
      if (i == without) continue;
      changes.insert(changes.end(), repairs[i].changes.begin(), repairs[i].changes.end());
    }
    ++trials_;
    return of_.mends(changes, after_);
  }

  bool has_lost(std::size_t i) {
    const MatchedCall& call = calls_[i];
    const bool lost =
        !call.results.empty() &&
        !std::ranges::all_of(call.results, &std::optional<Label>::has_value) &&
        std::ranges::all_of(call.whole_results, &std::optional<GlobalValue>::has_value);
    if (!lost || call.own().kind == Kind::kToLocal) return false;
    accused_for_[i] = i;
    if (call.own().kind == Kind::kGradient) return true;
    if (flattens(call) || is_of_own_loss(call)) return false;
    int behind = -1;
    for (std::size_t k = 0; k < call.operands.size(); ++k) {
      if (call.operands[k]) continue;
      const int producer = k < call.producers.size() ? call.producers[k] : -1;
      const auto formless = behind_.find(producer);
      if (formless == behind_.end()) return false;
      behind = formless->second;
    }
    for (std::size_t k = 0; k < call.results.size(); ++k) {
      if (call.results[k] || !forms_of(call, k, layout_).empty()) continue;
      // Terms that are gathered, to be added up, have lost nothing.
      const bool gathers = call.own().kind == Kind::kCollective && behind < 0;
      const bool stands = behind < 0 && !(gathers && call.operands[0]->has_terms());
      behind_[static_cast<int>(i)] = stands ? static_cast<int>(i) : behind;
      return false;
    }
    accused_for_[i] = behind < 0 ? i : static_cast<std::size_t>(behind);
    return true;
  }

  // A loss that each rank averages over its own rows has gradients that are as many times too large
  // as there are ranks, until they are averaged.
  bool is_of_own_loss(const MatchedCall& call) const {
    const bool collects =
        call.own().kind == Kind::kCollective && call.operands[0] && !call.operands[0]->has_terms();
    if (call.own().pass != Pass::kBackward || collects) return false;
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      if (!call.results[i] && !is_scaled(call, i)) return false;
    }
    return true;
  }

  bool is_scaled(const MatchedCall& call, std::size_t result) const {
    const Numbers held = held_of(call, &LoggedCall::results, result);
    if (held.size() != call.held.size() || held[0].is_integral()) return false;
    const GlobalValue& whole = *call.whole_results[result];
    return std::ranges::any_of(ranks_averaged(layout_), [&](double factor) {
      return label_of(held, times(whole, factor), layout_, relative_).has_value();
    });
  }

  // A step with its results in the form number `which`, or the last one.
  std::optional<Repair> repair(std::size_t step, std::size_t which) const {
    const MatchedCall& call = calls_[step];
    std::vector<std::vector<Form>> forms(call.results.size());
    std::vector<const Form*> chosen(call.results.size());
    const Form* told = nullptr;
    bool any = false;
    for (std::size_t k = 0; k < call.results.size(); ++k) {
      if (call.results[k]) continue;
      forms[k] = forms_of(call, k, layout_);
      if (forms[k].empty()) return std::nullopt;
      any = any || which < forms[k].size();
      chosen[k] = &forms[k][std::min(which, forms[k].size() - 1)];
      if (told == nullptr) told = chosen[k];
    }
    if (!any) return std::nullopt;
    return Repair{step, accused_for_.at(step), *told, changes_of(call, chosen, layout_)};
  }

  // A term that several steps take for the whole: all are right if it is reduced where it was made.
  std::optional<Cause> reduced_before(const std::vector<std::size_t>& steps) {
    std::vector<Repair> repairs;
    for (const std::size_t step : steps) {
      const MatchedCall& call = calls_[step];
      if (call.own().kind == Kind::kCollective) continue;  // it reduces what it takes
      for (std::size_t k = 0; k < std::min(call.producers.size(), call.operands.size()); ++k) {
        if (call.producers[k] < 0 || !call.operands[k] || !call.operands[k]->has_terms()) continue;
        const MatchedCall& maker = calls_[static_cast<std::size_t>(call.producers[k])];
        const auto at = std::ranges::find_if(maker.own().results, [&](const GlobalValue& result) {
          return same_numbers(result, call.own().operands[k]);
        });
        if (at == maker.own().results.end()) continue;
        Form whole = reduced(*call.operands[k], *call.whole_operands[k], layout_);
        std::vector<const Form*> chosen(maker.results.size());
        chosen[static_cast<std::size_t>(at - maker.own().results.begin())] = &whole;
        auto changes = changes_of(maker, chosen, layout_);
        repairs.push_back({step, step, std::move(whole), std::move(changes)});
      }
    }
    if (repairs.empty() || trials_ >= kMostTrials || !mends(repairs)) return std::nullopt;
    return accused(repairs.front());
  }

  // Terms that steps behind them take as they are, in all passes of a loop: the last step whose
  // terms are to be reduced.
  std::optional<Cause> reduced_where_made() {
    std::vector<std::size_t> makers;
    for (std::size_t i = calls_.size(); i-- > 0;) {
      if (makes_terms(calls_[i]) && of_.has(calls_[i])) makers.push_back(i);
    }
    for (const auto& group : by_place(makers, calls_)) {  // the last one first
      const MatchedCall& first = calls_[group.front()];
      if (is_reduced_later(group.front())) continue;
      const auto passes = std::ranges::count_if(
          calls_, [&](const MatchedCall& call) { return same_place(call, first.own().key); });
      const auto reduce = [&](std::size_t i, const auto&) -> std::optional<Repair> {
        if (!makes_terms(calls_[i])) return std::nullopt;
        Form whole = reduced(*calls_[i].results[0], *calls_[i].whole_results[0], layout_);
        auto changes = changes_of(calls_[i], {&whole}, layout_);
        return Repair{i, i, std::move(whole), std::move(changes)};
      };
      // Right by chance where further passes have terms.
      const auto repairs = in_all_passes(first.own().key, reduce);
      if (std::ssize(repairs) == passes) return terms_of(layout_, calls_[group.front()]);
    }
    return std::nullopt;
  }

  // One step done right in all passes of a loop, of which some show once those before them are
  // mended; none if that does not mend the value.
  template <typename Make>
  std::vector<Repair> in_all_passes(const CallKey place, const Make& make) {
    std::vector<Repair> repairs;
    std::set<CallKey> mended;
    std::vector<MatchedCall> as_they_were;
    const auto is_open = [&](const MatchedCall& call) {
      return same_place(call, place) && !mended.contains(call.own().key);
    };
    bool right = false;
    while (!right && trials_ < 2 * kMostTrials && std::ranges::any_of(calls_, is_open)) {
      const std::vector<std::size_t> lost = suspects();
      const std::size_t before = repairs.size();
      for (std::size_t i = 0; i < calls_.size(); ++i) {
        auto one = is_open(calls_[i]) ? make(i, lost) : std::nullopt;
        if (!one) continue;
        mended.insert(calls_[i].own().key);
        repairs.push_back(std::move(*one));
      }
      if (repairs.size() == before) break;
      right = mends(repairs);
      if (right) break;
      if (as_they_were.empty()) as_they_were.swap(calls_);
      calls_ = std::move(after_);
    }
    if (!as_they_were.empty()) calls_ = std::move(as_they_were);
    return right ? std::move(repairs) : std::vector<Repair>();
  }

  // Some reduction over a dim of its terms takes what is made of the step.
  bool is_reduced_later(std::size_t step) const {
    const Placements& terms = calls_[step].results[0]->placements;
    for (std::size_t dim = 0; dim < terms.size(); ++dim) {
      if (terms[dim].is_partial() && reduced_behind(of_, step, dim)) return true;
    }
    return false;
  }

  static bool makes_terms(const MatchedCall& call) {
    return call.results.size() == 1 && call.results[0] && call.results[0]->has_terms();
  }

  // The steps done right in each form.
  std::optional<Cause> together(const std::vector<std::size_t>& steps) {
    const CallKey place = calls_[steps.front()].own().key;
    bool any = true;
    for (std::size_t which = 0; any && trials_ < kMostTrials; ++which) {
      any = false;
      const auto repairs = in_all_passes(place, [&](std::size_t i, const auto& lost) {
        auto one = std::ranges::count(lost, i) > 0 ? repair(i, which) : std::nullopt;
        any = any || one;
        return one;
      });
      for (const Repair& one : repairs) {
        if (auto cause = one.is_in(calls_) ? accused(one) : std::nullopt) return cause;
      }
    }
    return std::nullopt;
  }

  // One mistake in several places, each of which shows once those before it are mended. Repairs
  // that are not needed in the end are of no mistake.
  std::optional<Cause> one_after_the_other() {
    std::vector<Repair> repairs;
    std::set<CallKey> mended;
    const std::vector<MatchedCall> as_they_were = calls_;
    bool right = false;
    while (!right && trials_ < kMostTrials) {
      std::optional<Repair> next;
      for (const std::size_t i : suspects()) {
        if (!mended.contains(calls_[i].own().key)) next = repair(i, 0);
        if (next) break;
      }
      if (!next) break;
      mended.insert(calls_[next->step].own().key);
      // A collective only passes on what had lost its meaning before it.
      const bool taken = next->is_in(as_they_were) && !repairs.empty() &&
                         as_they_were[next->step].own().kind == Kind::kCollective &&
                         !as_they_were[next->step].operands[0];
      next->cause = taken ? repairs.back().cause : accused(*next);
      repairs.push_back(std::move(*next));
      right = mends(repairs);
      if (!right) calls_ = after_;
    }
    calls_ = as_they_were;
    if (!right) return std::nullopt;
    // An offset by rank that is put right hides the step to whose result it was added.
    const auto feeds = [&](const Repair& from, const Repair& to) {
      const MatchedCall& call = calls_[to.step];
      return std::ranges::count(call.producers, static_cast<int>(from.step)) > 0 && by_rank(call);
    };
    for (std::size_t i = repairs.size(); i-- > 0 && trials_ < kMostTrials + repairs.size();) {
      const bool hidden = i + 1 < repairs.size() && feeds(repairs[i], repairs[i + 1]);
      if (repairs.size() > 1 && !hidden && mends(repairs, i)) {
        repairs.erase(repairs.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    needed_ = repairs.size();
    const Repair& first = repairs.front();
    auto cause = first.is_in(calls_) ? accused(first) : std::nullopt;
    return cause ? cause : first.cause;
  }

  std::optional<Cause> accused(const Repair& repair) const {
    return accused_of(of_, calls_[repair.told], repair.form, repair.step);
  }

  Suspicions& of_;
  std::vector<MatchedCall>& calls_;
  const MeshLayout& layout_;
  const double relative_;
  std::vector<MatchedCall> after_;  // the last trial
  std::map<int, int> behind_;       // steps without a form, and the one that stands behind them
  std::map<std::size_t, std::size_t> accused_for_;
  std::size_t trials_ = 0, needed_ = 0;
};

}  // namespace

// Pieces that a step joins are rather in another order than joined too early.
std::optional<Cause> cause_on_path(Suspicions& suspicions) {
  auto cause = Accuser(suspicions).first();
  const bool joins = cause && cause->id == causes::kOnPieces &&
                     (cause->text.starts_with("cat ") || cause->text.starts_with("stack "));
  auto ordered = joins && suspicions.exchanged ? suspicions.exchanged() : std::nullopt;
  return ordered ? ordered : cause;
}

std::set<int> cut_element_lines(const std::vector<MatchedCall>& calls) {
  std::set<int> lines;
  for (const MatchedCall& call : calls) {
    const LoggedCall& own = call.own();
    if (own.kind != Kind::kOp || own.name() != "select" || own.dims.size() != 1) continue;
    if (call.operands.empty() || !call.operands[0]) continue;
    const Dims& whole = call.whole_operands[0]->meta.shape;
    const Dims& piece = own.operands[0].meta.shape;
    const std::int64_t dim = own.dims[0] < 0 ? own.dims[0] + std::ssize(whole) : own.dims[0];
    const bool cut = std::ranges::any_of(call.operands[0]->placements,
                                         [&](const Placement& p) { return p.is_shard(dim); });
    const auto at = static_cast<std::size_t>(dim);
    if (cut && at < piece.size() && piece[at] == 1 && whole[at] > 1) {
      lines.insert(own.position.line);
    }
  }
  return lines;
}

}  // namespace shardlab
