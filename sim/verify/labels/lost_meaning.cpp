// Operands and results of a call are labelled in the same way, each compared with its own value on
// one device, so that only the op's name has to be known.
#include "sim/verify/labels/lost_meaning.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text_of_list.h"
#include "sim/verify/compare.h"
#include "sim/verify/labels/matched_calls.h"

namespace shardlab {

namespace {

std::string list_of(const std::vector<std::int64_t>& sizes) { return text_of_list(sizes, " + "); }

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

bool is_known(const std::optional<Label>& label) { return label.has_value(); }

// A result of which each rank holds a term.
struct Term {
  MatchedCall call;
  std::size_t result = 0;
  const Label& label() const { return *call.results[result]; }
};

class Look {
 public:
  Look(const MeshLayout& layout, double relative) : layout_(layout), relative_(relative) {}

  // A call with the same operands on all ranks that were reduced from terms by the wrong reduction.
  // Sums in place of averages are found by their factors.
  std::optional<Cause> reduced_otherwise(const MatchedCall& call,
                                         const std::vector<Term>& terms) const {
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (call.operands[i]) continue;
      const std::vector<GlobalValue> held = held_of(call, &LoggedCall::operands, i);
      if (held.size() != call.held.size() || held[0].is_integral() || !all_alike(held)) continue;
      // Zeros are no evidence: they are the least of terms if some rank has nothing to add up.
      if (largest_finite(held[0].reals) == 0) continue;
      for (std::size_t back = terms.size(); back-- > 0;) {
        if (auto lost = reduced_otherwise(call, held[0], terms[back])) return lost;
      }
    }
    return std::nullopt;
  }

  // Nothing for calls that lose nothing, and for those that are no evidence.
  std::optional<Cause> lost_at(const MatchedCall& call, const MatchedCall* term_of) const {
    if (call.results.empty() || std::ranges::all_of(call.results, is_known)) return std::nullopt;
    if (!std::ranges::all_of(call.operands, is_known)) return std::nullopt;
    if (call.operands.empty()) return made_alike(call);
    if (!same_numbers(call) || flattens(call) || is_of_own_loss(call)) return std::nullopt;
    // The mesh dim that cuts a dim which the call names explains more than others do.
    std::optional<Cause> found;
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      auto lost = along(call, dim, term_of);
      if (lost && runs_along(call, dim)) return lost;
      if (!found) found = std::move(lost);
    }
    return found;
  }

 private:
  std::optional<Cause> reduced_otherwise(const MatchedCall& call, const GlobalValue& got,
                                         const Term& term) const {
    const std::vector<GlobalValue> terms = held_of(term.call, &LoggedCall::results, term.result);
    if (terms[0].meta.shape != got.meta.shape) return std::nullopt;
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      const Placement& placement = term.label().placements[dim];
      if (!placement.is_partial()) continue;
      for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kSum, ReduceOp::kAvg}) {
        if (is_extreme(op) == is_extreme(placement.op)) continue;
        Label other = term.label();
        other.placements[dim] = Placement::partial(op);
        const auto label = label_of(terms, got, layout_, relative_);
        if (!label || label->placements != other.placements) continue;
        // The collective comes after the call that gives the terms.
        return found(term.call, causes::kOtherReduction,
                     fmt::format("{} takes the {} over {} of what {} gives, of which each rank "
                                 "holds a term of {}: reduce it with {}",
                                 at(call), to_string(op), layout_.names()[dim], at(term.call),
                                 text_of(placement.op), to_string(placement.op)));
      }
    }
    return std::nullopt;
  }

  static bool runs_along(const MatchedCall& call, std::size_t mesh_dim) {
    const Placement& placement = call.operands[0]->placements[mesh_dim];
    const auto ndim = static_cast<std::int64_t>(call.alone->operands[0].meta.shape.size());
    return placement.is_shard() && std::ranges::any_of(call.alone->dims, [&](std::int64_t dim) {
             return (dim < 0 ? dim + ndim : dim) == placement.dim;
           });
  }

  // Rows of a flattened piece are no piece of the flattened whole, and right all the same.
  static bool flattens(const MatchedCall& call) {
    if (call.alone->operands.size() != 1 || call.alone->results.size() != 1) return false;
    if (!call.alone->row->op.is_view()) return false;
    const auto groups = [](const LoggedCall& one) {
      return groups_of(one.operands[0].meta.shape, one.results[0].meta.shape);
    };
    const auto whole = groups(*call.alone);
    return whole && groups(*call.held[0]) == whole;
  }

  // A loss that each rank averages over its own rows has gradients that are as many times too large
  // as there are ranks, until they are averaged.
  bool is_of_own_loss(const MatchedCall& call) const {
    if (call.alone->pass != Pass::kBackward) return false;
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      if (!call.results[i] && !is_scaled(call, i)) return false;
    }
    return true;
  }

  bool is_scaled(const MatchedCall& call, std::size_t result) const {
    const std::vector<GlobalValue> held = held_of(call, &LoggedCall::results, result);
    if (held.size() != call.held.size() || held[0].is_integral()) return false;
    for (std::uint32_t dims = 1; dims < 1U << layout_.ndim(); ++dims) {
      GlobalValue scaled = call.alone->results[result];
      double factor = 1;
      for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
        if ((dims >> dim & 1) != 0) factor *= static_cast<double>(layout_.size(dim));
      }
      for (double& number : scaled.reals) number *= factor;
      if (factor > 1 && label_of(held, scaled, layout_, relative_)) return true;
    }
    return false;
  }

  // Sizes of a piece may be among them, the rank's number may not.
  static bool same_numbers(const MatchedCall& call) {
    return std::ranges::all_of(
        call.held, [&](const LoggedCall* own) { return own->numbers == call.held[0]->numbers; });
  }

  // A factory that was given the size of a piece. A value with one number throughout fits all
  // pieces.
  std::optional<Cause> made_alike(const MatchedCall& call) const {
    const std::vector<GlobalValue> held = held_of(call, &LoggedCall::results, 0);
    if (held.size() != call.held.size() || !all_alike(held)) return std::nullopt;
    if (held[0].meta.shape == call.alone->results[0].meta.shape) return std::nullopt;
    const auto uniform = [](const auto& numbers) {
      return std::ranges::adjacent_find(numbers, std::ranges::not_equal_to{}) == numbers.end();
    };
    if (uniform(held[0].reals) && uniform(held[0].integers)) return std::nullopt;
    return found(call, causes::kOnPieces,
                 fmt::format("{} makes a tensor of the size of a piece, and the same one on all "
                             "ranks: it fits the first piece, not the others",
                             at(call)));
  }

  std::optional<Cause> along(const MatchedCall& call, std::size_t mesh_dim,
                             const MatchedCall* term_of) const {
    const std::string& name = layout_.names()[mesh_dim];
    if (layout_.size(mesh_dim) < 2) return std::nullopt;
    std::optional<std::size_t> cut, term, whole;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      const Placement& placement = call.operands[i]->placements[mesh_dim];
      auto& which = placement.is_shard() ? cut : placement.is_partial() ? term : whole;
      if (!which) which = i;
    }
    const bool follows =
        term && term_of != nullptr &&
        call.alone->operands[*term].meta.shape == term_of->alone->results[0].meta.shape;
    if (follows) {
      if (auto taken = taken_for_whole(call, *term_of, mesh_dim)) return taken;
    }
    if (term && !(cut && runs_along(call, mesh_dim))) {
      const bool adds = whole && (name_of(*call.alone).starts_with("add") ||
                                  name_of(*call.alone).starts_with("sub"));
      if (adds) {
        // Numbers on both sides: a replica that was summed up as if it were a piece.
        const bool number = product(call.alone->operands[*whole].meta.shape) == 1;
        return found(call, number ? causes::kReplicaCounted : causes::kTermAdded,
                     fmt::format("{} adds what all ranks hold alike to a term of a sum over {}: it "
                                 "counts {} times; add it after the sum",
                                 at(call), name, layout_.size(mesh_dim)));
      }
      const bool average = call.operands[*term]->placements[mesh_dim].op == ReduceOp::kAvg;
      return found(call, causes::kMissingSum,
                   fmt::format("{} takes a term of {} over {} for the whole: an all_reduce with {} "
                               "over {} is missing before it",
                               at(call), text_of(average ? ReduceOp::kAvg : ReduceOp::kSum), name,
                               average ? "avg" : "sum", name));
    }
    if (cut) return on_pieces(call, *cut, mesh_dim);
    return std::nullopt;
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
        fmt::format("{} of {}", sizes.front(), call.alone->operands[operand].meta.shape[dim]);
    const bool even = std::ranges::all_of(sizes, [&](auto size) { return size == sizes.front(); });
    return fmt::format("dim {}, which {} cuts: each rank has its own {}", dim,
                       layout_.names()[mesh_dim],
                       even ? whole : list_of(sizes) + " in pieces of their own size");
  }

  std::optional<Cause> on_pieces(const MatchedCall& call, std::size_t operand,
                                 std::size_t mesh_dim) const {
    if (auto uneven = uneven_mean(call, operand, mesh_dim)) return uneven;
    return found(
        call, causes::kOnPieces,
        fmt::format("{} runs on pieces of {}", at(call), cut_text(call, operand, mesh_dim)));
  }

  std::optional<Cause> taken_for_whole(const MatchedCall& call, const MatchedCall& term_of,
                                       std::size_t mesh_dim) const {
    for (std::size_t i = 0; i < term_of.operands.size(); ++i) {
      if (!term_of.operands[i]->placements[mesh_dim].is_shard()) continue;
      return found(term_of, causes::kOnPieces,
                   fmt::format("{} runs on pieces of {}, and {} takes its result for the whole",
                               at(term_of), cut_text(term_of, i, mesh_dim), at(call)));
    }
    return std::nullopt;
  }

  // Results that, weighted by how many elements each rank has, make the whole one.
  std::optional<Cause> uneven_mean(const MatchedCall& call, std::size_t operand,
                                   std::size_t mesh_dim) const {
    const auto dim = static_cast<std::size_t>(call.operands[operand]->placements[mesh_dim].dim);
    if (auto sizes = lengths(call, operand, mesh_dim, dim); weighted(call, mesh_dim, sizes)) {
      return found(call, causes::kUnevenMean,
                   fmt::format("{} is a mean over dim {}, which {} cuts into {}: an average of "
                               "averages",
                               at(call), dim, layout_.names()[mesh_dim], list_of(sizes)));
    }
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (!call.alone->operands[i].is_integral()) continue;
      const std::vector<std::int64_t> counts = counted(call, i, mesh_dim);
      if (!weighted(call, mesh_dim, counts)) continue;
      return found(call, causes::kUnevenMean,
                   fmt::format("{} is a mean over counts that differ along {}, {}: an average of "
                               "averages",
                               at(call), layout_.names()[mesh_dim], list_of(counts)));
    }
    return std::nullopt;
  }

  // Elements that count: indices that are not negative, entries of a mask that are not 0.
  std::vector<std::int64_t> counted(const MatchedCall& call, std::size_t operand,
                                    std::size_t mesh_dim) const {
    const bool mask = call.alone->operands[operand].meta.dtype == DType::kBool;
    const auto counts = [&](std::int64_t value) { return mask ? value != 0 : value >= 0; };
    return by_place(call, operand, mesh_dim, [&](const GlobalValue& piece) {
      return static_cast<std::int64_t>(std::ranges::count_if(piece.integers, counts));
    });
  }

  bool weighted(const MatchedCall& call, std::size_t mesh_dim,
                const std::vector<std::int64_t>& sizes) const {
    const auto all =
        static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
    const bool even = std::ranges::all_of(sizes, [&](auto size) { return size == sizes.front(); });
    if (even || all == 0) return false;
    std::vector<GlobalValue> terms;
    for (std::size_t index = 0; index < call.held.size(); ++index) {
      const std::vector<GlobalValue>& results = call.held[index]->results;
      if (results.empty() || results[0].is_integral()) return false;
      const Coordinate own = layout_.coordinate_at_index(static_cast<std::int64_t>(index));
      const auto size = sizes[static_cast<std::size_t>(own[mesh_dim])];
      GlobalValue& term = terms.emplace_back(results[0]);
      for (double& number : term.reals) {
        number = size == 0 ? 0 : number * static_cast<double>(size) / all;
      }
    }
    const auto label = label_of(terms, call.alone->results[0], layout_, relative_);
    return label && label->placements[mesh_dim] == Placement::partial(ReduceOp::kSum);
  }

  static std::string at(const MatchedCall& call) {
    std::string text = name_of(*call.alone);
    if (call.alone->pass == Pass::kBackward) text = "the backward of " + text;
    return fmt::format("{} in line {}", text, call.alone->position.line);
  }

  static Cause found(const MatchedCall& call, std::string_view id, std::string text) {
    return {id, std::move(text), call.alone->position.line};
  }

  const MeshLayout& layout_;
  double relative_;
};

bool has_pieces_and_terms(const MatchedCall& call) {
  const auto any = [](const Labels& labels, bool (Placement::*is)() const) {
    return std::ranges::any_of(labels, [&](const std::optional<Label>& label) {
      return label && std::ranges::any_of(label->placements, is);
    });
  };
  return std::ranges::all_of(call.operands, is_known) && any(call.operands, &Placement::is_shard) &&
         any(call.results, &Placement::is_partial);
}

// The last ones: a collective comes soon after the terms that it reduces.
void keep_terms(const MatchedCall& call, std::vector<Term>& terms) {
  constexpr std::size_t kMost = 8;
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    const auto& label = call.results[i];
    if (label && std::ranges::any_of(label->placements, [](const Placement& placement) {
          return placement.is_partial();
        })) {
      terms.push_back({call, i});
    }
  }
  if (terms.size() > kMost) terms.erase(terms.begin(), terms.end() - kMost);
}

bool averages(const MatchedCall& call) {
  return std::ranges::any_of(call.results, [](const std::optional<Label>& label) {
    return label && std::ranges::any_of(label->placements, [](const Placement& placement) {
             return placement.is_partial() && placement.op != ReduceOp::kSum;
           });
  });
}

}  // namespace

std::optional<Cause> first_lost(const CallLog& ranks, const CallLog& alone,
                                const MeshLayout& layout, double relative) {
  const Look look(layout, relative);
  std::optional<MatchedCall> term_of;  // the last average, maximum or minimum of pieces
  std::optional<Cause> lost;
  std::vector<Term> terms;
  for_each_matched(ranks, alone, layout, relative, [&](MatchedCall& call) {
    lost = look.lost_at(call, term_of ? &*term_of : nullptr);
    if (!lost) lost = look.reduced_otherwise(call, terms);
    if (lost) return false;
    keep_terms(call, terms);
    if (has_pieces_and_terms(call) && averages(call)) term_of = std::move(call);
    return true;
  });
  return lost;
}

}  // namespace shardlab
