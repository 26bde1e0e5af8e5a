// Steps are looked at in the order of the first rank. All before the first mistake is right, so
// that few have lost anything; of these the ones that are meant to, such as the parts of a
// logsumexp that is merged later, do not mend the value.
#include "sim/verify/labels/suspects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>

#include "base/text_of_list.h"
#include "mesh/local_shape.h"
#include "schema/op_row.h"
#include "sim/language/run/call_names.h"
#include "sim/verify/compare.h"

namespace shardlab {

namespace {

using Kind = LoggedCall::Kind;
using Numbers = std::vector<GlobalValue>;

constexpr std::size_t kMostTrials = 24;

std::string list_of(const std::vector<std::int64_t>& sizes) { return text_of_list(sizes, " + "); }

bool is_known(const std::optional<Label>& label) { return label.has_value(); }

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

/// One way in which ranks may hold the right result, by its shape on each rank.
struct Form {
  Placements placements;
  Numbers parts;
  double factor = 1;  ///< in gradients of a loss that each rank averages over its own rows
};

class Accuser {
 public:
  explicit Accuser(Suspicions& of)
      : of_(of), calls_(of.calls), layout_(*of.layout), relative_(of.relative) {}

  std::optional<Cause> first() {
    const std::vector<std::size_t> all = suspects();
    std::set<std::size_t> tried;
    for (const std::size_t i : all) {
      if (tried.contains(i)) continue;
      std::vector<std::size_t> passes;
      for (const std::size_t other : all) {
        if (other >= i && same_place(calls_[i], calls_[other])) passes.push_back(other);
      }
      if (auto cause = together(passes)) return cause;
      tried.insert(passes.begin(), passes.end());
    }
    return one_after_the_other();
  }

 private:
  /// A step and its results as they should be.
  struct Repair {
    std::size_t step;
    Form form;
    std::vector<ChangedResult> changes;
  };

  // A step whose result no pieces or terms fit, by its shapes, stands behind the next one.
  std::vector<std::size_t> suspects() {
    std::vector<std::size_t> found;
    behind_.clear();
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (!on_path(calls_[i]) || !has_lost(i)) continue;
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

  bool on_path(const MatchedCall& call) const {
    const SourcePosition& at = call.own().position;
    if (call.own().kind == Kind::kGradient) return of_.by_backward;
    return of_.path.contains({at.line, at.column});
  }

  bool has_lost(std::size_t i) {
    const MatchedCall& call = calls_[i];
    const bool lost =
        !call.results.empty() && !std::ranges::all_of(call.results, is_known) &&
        std::ranges::all_of(call.whole_results, &std::optional<GlobalValue>::has_value);
    if (!lost || call.own().kind == Kind::kToLocal) return false;
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
      if (call.results[k] || !forms_of(call, k).empty()) continue;
      behind_[static_cast<int>(i)] = behind < 0 ? static_cast<int>(i) : behind;
      return false;
    }
    accused_for_[i] = behind < 0 ? i : static_cast<std::size_t>(behind);
    return true;
  }

  // A loss that each rank averages over its own rows has gradients that are as many times too large
  // as there are ranks, until they are averaged.
  bool is_of_own_loss(const MatchedCall& call) const {
    if (call.own().pass != Pass::kBackward) return false;
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      if (!call.results[i] && !is_scaled(call, i)) return false;
    }
    return true;
  }

  bool is_scaled(const MatchedCall& call, std::size_t result) const {
    const Numbers held = held_of(call, &LoggedCall::results, result);
    if (held.size() != call.held.size() || held[0].is_integral()) return false;
    const GlobalValue& whole = *call.whole_results[result];
    return std::ranges::any_of(ranks_averaged(), [&](double factor) {
      return label_of(held, times(whole, factor), layout_, relative_).has_value();
    });
  }

  // The numbers of ranks over which a program may average.
  std::set<double> ranks_averaged() const {
    std::set<double> factors = {1};
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      for (const double factor : std::set<double>(factors)) {
        factors.insert(factor * static_cast<double>(layout_.size(dim)));
      }
    }
    factors.erase(1);
    return factors;
  }

  static GlobalValue times(GlobalValue value, double factor) {
    for (double& number : value.reals) number *= factor;
    return value;
  }

  // Results that the ranks might hold in place of a lost one, by its shapes: pieces as operands
  // are cut, pieces in any other way, the whole on all ranks, terms of it.
  std::vector<Form> forms_of(const MatchedCall& call, std::size_t result) const {
    const GlobalValue& whole = *call.whole_results[result];
    const Numbers held = held_of(call, &LoggedCall::results, result);
    std::vector<Form> forms;
    // A view into sizes of the whole has other sizes on a piece.
    const bool sized = call.own().kind == Kind::kOp && call.own().name().ends_with("view");
    const auto add = [&](const Placements& placements) {
      if (std::ranges::find(forms, placements, &Form::placements) != forms.end()) return;
      Numbers parts = parts_of(whole, placements, layout_);
      if (parts.size() != held.size()) return;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const Dims &part = parts[i].meta.shape, &own = held[i].meta.shape;
        if (part != own && !(sized && product(part) == product(own))) return;
      }
      forms.push_back({placements, std::move(parts)});
      if (call.own().pass != Pass::kBackward || whole.is_integral()) return;
      for (const double factor : ranks_averaged()) {
        Form scaled{placements, {}, factor};
        for (const GlobalValue& part : forms.back().parts) {
          scaled.parts.push_back(times(part, factor / forms.back().factor));
        }
        forms.push_back(std::move(scaled));
      }
    };
    const auto dims = static_cast<std::int64_t>(whole.meta.shape.size());
    const auto valid = [&](const Placement& p) { return !p.is_shard() || p.dim < dims; };
    for (const auto& label : call.operands) {
      if (label && std::ranges::all_of(label->placements, valid) && !label->has_terms()) {
        add(label->placements);
      }
    }
    Placements tried(layout_.ndim(), Placement::replicate());
    const std::function<void(std::size_t)> each = [&](std::size_t dim) {
      if (dim == tried.size()) return add(tried);
      for (std::int64_t cut = -1; cut < dims; ++cut) {
        tried[dim] = cut < 0 ? Placement::replicate() : Placement::shard(cut);
        each(dim + 1);
      }
    };
    if (layout_.ndim() <= 3) each(0);
    if (whole.meta.dtype == DType::kBool) return forms;
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      Placements terms(layout_.ndim(), Placement::replicate());
      terms[dim] = Placement::partial(ReduceOp::kSum);
      const bool apart = std::ranges::any_of(call.operands, [&](const auto& label) {
        return !label || !label->placements[dim].is_replicate();
      });
      if (apart || call.operands.empty()) add(terms);
    }
    return forms;
  }

  std::vector<ChangedResult> changes_of(const MatchedCall& call,
                                        const std::vector<const Form*>& forms) const {
    std::vector<ChangedResult> changes;
    for (std::size_t k = 0; k < forms.size(); ++k) {
      if (forms[k] == nullptr) continue;
      ChangedResult change{call.own().key, k, {}};
      for (std::int64_t i = 0; i < layout_.size(); ++i) {
        const auto rank = static_cast<std::size_t>(layout_.rank_at_index(i));
        if (change.values.size() <= rank) change.values.resize(rank + 1);
        change.values[rank] = forms[k]->parts[static_cast<std::size_t>(i)];
      }
      changes.push_back(std::move(change));
    }
    return changes;
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
      forms[k] = forms_of(call, k);
      if (forms[k].empty()) return std::nullopt;
      any = any || which < forms[k].size();
      chosen[k] = &forms[k][std::min(which, forms[k].size() - 1)];
      if (told == nullptr) told = chosen[k];
    }
    if (!any) return std::nullopt;
    return Repair{step, *told, changes_of(call, chosen)};
  }

  // The same step of all passes of a loop.
  static bool same_place(const MatchedCall& a, const MatchedCall& b) {
    CallKey first = a.own().key, second = b.own().key;
    std::get<4>(first) = std::get<4>(second) = 0;
    return first == second;
  }

  // The steps done right in each form.
  std::optional<Cause> together(const std::vector<std::size_t>& steps) {
    for (std::size_t which = 0; trials_ < kMostTrials; ++which) {
      std::vector<Repair> repairs;
      for (const std::size_t step : steps) {
        if (auto one = repair(step, which)) repairs.push_back(std::move(*one));
      }
      if (repairs.empty()) return std::nullopt;
      if (mends(repairs)) return accused(repairs.front().step, repairs.front().form);
    }
    return std::nullopt;
  }

  // One mistake in several places, each of which shows once those before it are mended. Repairs
  // that are not needed in the end are of no mistake.
  std::optional<Cause> one_after_the_other() {
    std::vector<Repair> repairs;
    std::set<CallKey> mended;
    const std::vector<MatchedCall> as_they_were = calls_;
    std::optional<Cause> cause;  // of the first
    bool right = false;
    while (!right && trials_ < kMostTrials) {
      std::optional<Repair> next;
      for (const std::size_t i : suspects()) {
        if (!mended.contains(calls_[i].own().key)) next = repair(i, 0);
        if (next) break;
      }
      if (!next) break;
      mended.insert(calls_[next->step].own().key);
      if (repairs.empty()) cause = accused(next->step, next->form);
      repairs.push_back(std::move(*next));
      right = mends(repairs);
      if (!right) calls_ = after_;
    }
    calls_ = as_they_were;
    if (!right) return std::nullopt;
    const CallKey first = repairs.front().changes.front().key;
    for (std::size_t i = repairs.size(); i-- > 0 && trials_ < kMostTrials + repairs.size();) {
      if (repairs.size() > 1 && mends(repairs, i)) {
        repairs.erase(repairs.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    const CallKey& key = repairs.front().changes.front().key;
    if (key == first) return cause;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i].own().key == key) return accused(i, repairs.front().form);
    }
    return std::nullopt;
  }

  std::optional<Cause> accused(std::size_t step, const Form& form) const {
    const auto instead = accused_for_.find(step);
    return accused(calls_[instead == accused_for_.end() ? step : instead->second], form, step);
  }

  std::optional<Cause> accused(const MatchedCall& call, const Form& form, std::size_t step) const {
    if (call.own().kind == Kind::kCollective) return of_collective(call);
    if (call.own().kind == Kind::kGradient) return of_gradient(form, step);
    if (draws(call.own().name())) return drawn(call);
    if (call.operands.empty()) return made_alike(call);
    // The mesh dim that cuts a dim which the call names explains more than others do, and one with
    // terms more than one that cuts.
    std::optional<Cause> cause;
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      auto lost = along(call, dim, form);
      if (lost && runs_along(call, dim)) return lost;
      const bool cuts = cause && cause->id == causes::kOnPieces;
      if (!cause || (cuts && lost && lost->id != causes::kOnPieces)) cause = std::move(lost);
    }
    if (cause) return cause;
    const bool by_rank = std::ranges::any_of(
        call.held, [&](const LoggedCall* own) { return own->numbers != call.own().numbers; });
    if (by_rank) {
      return found(call, causes::kOtherChunk,
                   fmt::format("{} takes another part than its rank's", at(call)));
    }
    if (auto first = first_part(call)) return first;
    return scaled(call);
  }

  // A whole tensor that is cut by the size of a piece.
  std::optional<Cause> first_part(const MatchedCall& call) const {
    if (call.own().kind != Kind::kOp || !call.own().row->op.is_view()) return std::nullopt;
    const Dims &whole = call.whole_results[0]->meta.shape, &own = call.own().results[0].meta.shape;
    for (std::size_t dim = 0; dim < own.size() && own.size() == whole.size(); ++dim) {
      if (own[dim] >= whole[dim] || !all_alike(held_of(call, &LoggedCall::results, 0))) continue;
      return found(call, causes::kOtherChunk,
                   fmt::format("{} takes {} of {} along dim {}, and the same ones on all ranks: "
                               "each rank's own are meant",
                               at(call), own[dim], whole[dim], dim));
    }
    return std::nullopt;
  }

  // All ranks hold the same, and go on with the same: a number is another one.
  std::optional<Cause> scaled(const MatchedCall& call) const {
    const GlobalValue &got = call.own().results[0], &right = *call.whole_results[0];
    const double a = largest_finite(got.reals), b = largest_finite(right.reals);
    if (a == 0 || b == 0) return std::nullopt;
    for (std::uint32_t dims = 1; dims < 1U << layout_.ndim(); ++dims) {
      double count = 1;
      std::vector<std::string> names;
      for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
        if ((dims >> dim & 1) == 0) continue;
        count *= static_cast<double>(layout_.size(dim));
        names.push_back(layout_.names()[dim]);
      }
      const bool more = std::fabs(a / b - count) < rounding::kFactor * count;
      const bool less = std::fabs(b / a - count) < rounding::kFactor * count;
      if (!more && !less) continue;
      return found(
          call, causes::kFactor,
          fmt::format("{} gives {} of the expected value, and {:.0f} is the size of {}", at(call),
                      more ? fmt::format("{:.0f} times", count) : fmt::format("1/{:.0f}", count),
                      count, text_of_list(names, " and ")));
    }
    return std::nullopt;
  }

  bool runs_along(const MatchedCall& call, std::size_t mesh_dim) const {
    if (!call.operands[0]) return false;
    const Placement& placement = call.operands[0]->placements[mesh_dim];
    const auto ndim = static_cast<std::int64_t>(call.whole_operands[0]->meta.shape.size());
    return placement.is_shard() && std::ranges::any_of(call.own().dims, [&](std::int64_t dim) {
             return (dim < 0 ? dim + ndim : dim) == placement.dim;
           });
  }

  // Random numbers: the same on all ranks where each should have its own part, or each rank's own.
  std::optional<Cause> drawn(const MatchedCall& call) const {
    if (!all_alike(held_of(call, &LoggedCall::results, 0))) {
      return found(
          call, causes::kOwnDraws,
          fmt::format("{} draws other numbers on each rank, from a state of its own", at(call)));
    }
    const bool mask = call.own().name().starts_with("bernoulli") ||
                      call.own().name().find("dropout") != std::string::npos;
    return found(call, mask ? causes::kOneMask : causes::kOnPieces,
                 fmt::format("{} draws the same {} on all ranks, each for its own piece: draw on "
                             "the distributed tensor, not on local ones",
                             at(call), mask ? "random mask" : "numbers"));
  }

  // A factory that was given the size of a piece.
  std::optional<Cause> made_alike(const MatchedCall& call) const {
    return found(call, causes::kOnPieces,
                 fmt::format("{} makes a tensor of the size of a piece, and the same one on all "
                             "ranks: it fits the first piece, not the others",
                             at(call)));
  }

  std::optional<Cause> along(const MatchedCall& call, std::size_t mesh_dim,
                             const Form& form) const {
    if (layout_.size(mesh_dim) < 2) return std::nullopt;
    std::optional<std::size_t> cut, term, whole;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (!call.operands[i]) continue;
      const Placement& placement = call.operands[i]->placements[mesh_dim];
      auto& which = placement.is_shard() ? cut : placement.is_partial() ? term : whole;
      if (!which) which = i;
    }
    if (cut) {
      if (auto uneven = uneven_mean(call, *cut, mesh_dim)) return uneven;
    }
    if (term) {
      if (auto taken = average_for_whole(call, mesh_dim)) return taken;
    }
    if (term && !(cut && runs_along(call, mesh_dim))) {
      return of_term(call, *term, whole, mesh_dim, form);
    }
    // A product over the cut dim that is summed up later, and something whole besides.
    const bool terms = form.placements[mesh_dim].is_partial();
    if (cut && whole && terms && !runs_along(call, mesh_dim)) return added(call, *whole, mesh_dim);
    if (cut) return on_pieces(call, *cut, mesh_dim);
    return std::nullopt;
  }

  std::optional<Cause> of_term(const MatchedCall& call, std::size_t term,
                               std::optional<std::size_t> whole, std::size_t mesh_dim,
                               const Form& form) const {
    const std::string& name = layout_.names()[mesh_dim];
    const bool adds =
        whole && (call.own().name().starts_with("add") || call.own().name().starts_with("sub"));
    if (adds && form.placements[mesh_dim].is_partial()) return added(call, *whole, mesh_dim);
    const ReduceOp op = call.operands[term]->placements[mesh_dim].op;
    if (is_extreme(op)) {
      return found(call, causes::kOtherReduction,
                   fmt::format("{} takes a term of {} over {} for the whole: an all_reduce with {} "
                               "over {} is missing before it",
                               at(call), shardlab::text_of(op), name, to_string(op), name));
    }
    return found(call, causes::kMissingSum,
                 fmt::format("{} takes a term of {} over {} for the whole: an all_reduce with {} "
                             "over {} is missing before it",
                             at(call), shardlab::text_of(op), name,
                             op == ReduceOp::kAvg ? "avg" : "sum", name));
  }

  // A number that is added is a replica that was summed up as if it were a piece.
  std::optional<Cause> added(const MatchedCall& call, std::size_t whole,
                             std::size_t mesh_dim) const {
    const bool number = product(call.whole_operands[whole]->meta.shape) == 1;
    return found(call, number ? causes::kReplicaCounted : causes::kTermAdded,
                 fmt::format("{} adds what all ranks hold alike to a term of a sum over {}: it "
                             "counts {} times; add it after the sum",
                             at(call), layout_.names()[mesh_dim], layout_.size(mesh_dim)));
  }

  // A gradient that was reduced between two backward passes takes terms again.
  std::optional<Cause> of_gradient(const Form& form, std::size_t step) const {
    const LoggedCall* reduced = nullptr;
    for (std::size_t i = 0; i < step; ++i) {
      if (calls_[i].own().kind == Kind::kCollective && on_path(calls_[i]))
        reduced = &calls_[i].own();
    }
    const bool terms = std::ranges::any_of(
        form.placements, [](const Placement& placement) { return placement.is_partial(); });
    if (!terms || reduced == nullptr) return std::nullopt;
    return Cause{causes::kTermAdded,
                 fmt::format("backward adds each rank's term to a gradient that {} in line {} has "
                             "reduced: reduce it once, after the last backward",
                             reduced->name(), reduced->position.line),
                 reduced->position.line};
  }

  // A number of one operand's piece, by place along one mesh dim, at place 0 of the others.
  template <typename Number>
  std::vector<std::int64_t> by_place(const MatchedCall& call, std::size_t operand,
                                     std::size_t mesh_dim, const Number& number) const {
    std::vector<std::int64_t> result;
    Coordinate coordinate = layout_.coordinate_at_index(0);
    for (std::int64_t k = 0; k < layout_.size(mesh_dim); ++k) {
      coordinate[mesh_dim] = k;
      const auto index = static_cast<std::size_t>(layout_.index_of(coordinate));
      result.push_back(number(call.held[index]->operands[operand]));
    }
    return result;
  }

  std::vector<std::int64_t> lengths(const MatchedCall& call, std::size_t operand,
                                    std::size_t mesh_dim, std::size_t dim) const {
    return by_place(call, operand, mesh_dim,
                    [&](const GlobalValue& piece) { return piece.meta.shape[dim]; });
  }

  std::string cut_text(const MatchedCall& call, std::size_t operand, std::size_t mesh_dim) const {
    const auto dim = static_cast<std::size_t>(call.operands[operand]->placements[mesh_dim].dim);
    const std::vector<std::int64_t> sizes = lengths(call, operand, mesh_dim, dim);
    const std::string whole =
        fmt::format("{} of {}", sizes.front(), call.whole_operands[operand]->meta.shape[dim]);
    return fmt::format("dim {}, which {} cuts: each rank has its own {}", dim,
                       layout_.names()[mesh_dim],
                       all_equal(sizes) ? whole : list_of(sizes) + " in pieces of their own size");
  }

  std::optional<Cause> on_pieces(const MatchedCall& call, std::size_t operand,
                                 std::size_t mesh_dim) const {
    return found(
        call, causes::kOnPieces,
        fmt::format("{} runs on pieces of {}", at(call), cut_text(call, operand, mesh_dim)));
  }

  // An average, maximum or minimum of pieces is a term, and the mistake is where it was taken.
  std::optional<Cause> average_for_whole(const MatchedCall& call, std::size_t mesh_dim) const {
    std::vector<int> open;
    const auto follow = [&](const MatchedCall& one) {
      for (std::size_t i = 0; i < one.operands.size() && i < one.producers.size(); ++i) {
        if (!one.operands[i]) continue;
        const Placement& placement = one.operands[i]->placements[mesh_dim];
        const bool average = placement.is_partial() && placement.op != ReduceOp::kSum;
        if (average && one.producers[i] >= 0) open.push_back(one.producers[i]);
      }
    };
    follow(call);
    while (!open.empty()) {  // the last step that made one comes first
      const auto last = std::ranges::max_element(open);
      const MatchedCall& term_of = calls_[static_cast<std::size_t>(*last)];
      open.erase(last);
      for (std::size_t i = 0; i < term_of.operands.size(); ++i) {
        if (!term_of.operands[i] || !term_of.operands[i]->placements[mesh_dim].is_shard()) continue;
        return found(term_of, causes::kOnPieces,
                     fmt::format("{} runs on pieces of {}, and {} takes its result for the whole",
                                 at(term_of), cut_text(term_of, i, mesh_dim), at(call)));
      }
      follow(term_of);
    }
    return std::nullopt;
  }

  // Results that, weighted by how many elements each rank has, make the whole one.
  std::optional<Cause> uneven_mean(const MatchedCall& call, std::size_t operand,
                                   std::size_t mesh_dim) const {
    const auto dim = static_cast<std::size_t>(call.operands[operand]->placements[mesh_dim].dim);
    const auto rows = static_cast<double>(call.whole_operands[operand]->meta.shape[dim]);
    const auto share = [&](std::size_t index) {
      return static_cast<double>(call.held[index]->operands[operand].meta.shape[dim]) / rows;
    };
    const std::vector<std::int64_t> sizes = lengths(call, operand, mesh_dim, dim);
    if (!all_equal(sizes) && weighted(call, mesh_dim, share)) {
      return found(call, causes::kUnevenMean,
                   fmt::format("{} is a mean over dim {}, which {} cuts into {}: an average of "
                               "averages",
                               mean_at(call), dim, layout_.names()[mesh_dim], list_of(sizes)));
    }
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (!call.whole_operands[i]->is_integral()) continue;
      const std::vector<std::int64_t> counts = counted(call, i, mesh_dim);
      const auto all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
      const auto counted_share = [&](std::size_t index) {
        const Coordinate own = layout_.coordinate_at_index(static_cast<std::int64_t>(index));
        return static_cast<double>(counts[static_cast<std::size_t>(own[mesh_dim])]) /
               static_cast<double>(all);
      };
      if (all == 0 || all_equal(counts) || !weighted(call, mesh_dim, counted_share)) continue;
      return found(call, causes::kUnevenMean,
                   fmt::format("{} is a mean over counts that differ along {}, {}: an average of "
                               "averages",
                               mean_at(call), layout_.names()[mesh_dim], list_of(counts)));
    }
    return std::nullopt;
  }

  // Elements that count: indices that are not negative, entries of a mask that are not 0.
  std::vector<std::int64_t> counted(const MatchedCall& call, std::size_t operand,
                                    std::size_t mesh_dim) const {
    const bool mask = call.whole_operands[operand]->meta.dtype == DType::kBool;
    const auto counts = [&](std::int64_t value) { return mask ? value != 0 : value >= 0; };
    return by_place(call, operand, mesh_dim, [&](const GlobalValue& piece) {
      return static_cast<std::int64_t>(std::ranges::count_if(piece.integers, counts));
    });
  }

  static bool all_equal(const std::vector<std::int64_t>& sizes) {
    return std::ranges::adjacent_find(sizes, std::ranges::not_equal_to{}) == sizes.end();
  }

  // The ranks' results, each times its share of the whole, are what one device has.
  template <typename Share>
  bool weighted(const MatchedCall& call, std::size_t mesh_dim, const Share& share) const {
    Numbers terms;
    for (std::size_t index = 0; index < call.held.size(); ++index) {
      const Numbers& results = call.held[index]->results;
      if (results.empty() || results[0].is_integral()) return false;
      const double weight = share(index);
      GlobalValue& term = terms.emplace_back(results[0]);
      for (double& number : term.reals) number = weight == 0 ? 0 : number * weight;
    }
    const auto label = label_of(terms, *call.whole_results[0], layout_, relative_);
    if (!label) return false;
    const Placement& placement = label->placements[mesh_dim];
    const bool gradient = call.own().pass == Pass::kBackward && placement.is_shard();
    return gradient || placement == Placement::partial(ReduceOp::kSum);
  }

  // Gradients of a mean are made by a division.
  static std::string mean_at(const MatchedCall& call) {
    if (call.own().pass != Pass::kBackward) return at(call);
    return fmt::format("what line {} averages", call.own().position.line);
  }

  bool in_group(const LoggedCall& call, std::size_t mesh_dim) const {
    if (call.group_size == layout_.size()) return true;
    return std::ranges::count(call.group, layout_.names()[mesh_dim]) > 0;
  }

  // The label of what it was given decides.
  std::optional<Cause> of_collective(const MatchedCall& call) const {
    const LoggedCall& own = call.own();
    const std::string group =
        own.group.empty() ? std::string("all ranks") : text_of_list(own.group, " and ");
    const bool reduces = own.collective == CollectiveKind::kAllReduce ||
                         own.collective == CollectiveKind::kReduce ||
                         own.collective == CollectiveKind::kReduceScatter;
    if (!call.operands[0]) return std::nullopt;
    const Placements& given = call.operands[0]->placements;
    std::vector<std::string> left, copies;
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      if (layout_.size(dim) < 2) continue;
      if (given[dim].is_partial() && !in_group(own, dim)) left.push_back(layout_.names()[dim]);
      if (!in_group(own, dim)) continue;
      if (given[dim].is_replicate()) copies.push_back(layout_.names()[dim]);
      if (!reduces) continue;
      if (given[dim].is_shard()) {
        return found(call, causes::kOnPieces,
                     fmt::format("{} reduces over {} pieces of dim {}, which {} cuts", at(call),
                                 group, given[dim].dim, layout_.names()[dim]));
      }
      const bool other = given[dim].is_partial() && given[dim].op != own.reduction;
      const bool extreme = is_extreme(given[dim].op) || is_extreme(own.reduction);
      if (other && extreme) {
        return found(call, causes::kOtherReduction,
                     fmt::format("{} takes the {} over {} of terms of {}: reduce them with {}",
                                 at(call), to_string(own.reduction), group,
                                 shardlab::text_of(given[dim].op), to_string(given[dim].op)));
      }
      if (other) {
        return found(call, causes::kFactor,
                     fmt::format("{} takes the {} over {} of terms of {}: it is {} {}", at(call),
                                 to_string(own.reduction), group, shardlab::text_of(given[dim].op),
                                 own.reduction == ReduceOp::kAvg ? "1/" : "times", own.group_size));
      }
    }
    if (reduces && !left.empty()) {
      return found(call, causes::kWrongGroup,
                   fmt::format("{} reduces over {}, and ranks hold terms over {}", at(call), group,
                               text_of_list(left, " and ")));
    }
    if (reduces && !copies.empty()) {
      return found(call, causes::kFactor,
                   fmt::format("{} adds up over {} what its ranks hold alike: it counts {} times",
                               at(call), text_of_list(copies, " and "), own.group_size));
    }
    if (own.collective == CollectiveKind::kBroadcast) {
      return found(call, causes::kOtherChunk,
                   fmt::format("{} gives all ranks of {} what one of them has", at(call), group));
    }
    return found(call, causes::kOtherLabel,
                 fmt::format("{} over {} puts pieces together that are cut in another way",
                             at(call), group));
  }

  static std::string at(const MatchedCall& call) {
    std::string text = call.own().name();
    if (call.own().pass == Pass::kBackward) text = "the backward of " + text;
    return fmt::format("{} in line {}", text, call.own().position.line);
  }

  static Cause found(const MatchedCall& call, std::string_view id, std::string text) {
    return {id, std::move(text), call.own().position.line};
  }

  Suspicions& of_;
  std::vector<MatchedCall>& calls_;
  const MeshLayout& layout_;
  const double relative_;
  std::vector<MatchedCall> after_;  // the last trial
  std::map<int, int> behind_;       // steps without a form, and the one that stands behind them
  std::map<std::size_t, std::size_t> accused_for_;
  std::size_t trials_ = 0;
};

}  // namespace

std::optional<Cause> cause_on_path(Suspicions& suspicions) { return Accuser(suspicions).first(); }

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
