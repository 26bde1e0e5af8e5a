// The label of what a step was given says how its result lost its meaning.
#include "sim/verify/labels/accused.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "base/text.h"
#include "schema/op_row.h"
#include "sim/language/run/call_names.h"
#include "sim/verify/compare.h"

namespace shardlab {

namespace {

bool all_equal(const auto& sizes) {
  return std::ranges::adjacent_find(sizes, std::ranges::not_equal_to{}) == sizes.end();
}

// Gradients of a mean are made by a division.
std::string mean_at(const MatchedCall& call) {
  if (call.own().pass != Pass::kBackward) return at(call);
  return fmt::format("what line {} averages", call.own().position.line);
}

// A whole tensor that is cut by the size of a piece.
std::optional<Cause> first_part(const MatchedCall& call) {
  if (call.own().kind != LoggedCall::Kind::kOp || !call.own().row->op.is_view())
    return std::nullopt;
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

// "4", "the root of 4", "the square of 4", if the factor is one of these.
std::string times_text(double factor, double count) {
  const auto is = [&](double number) {
    return std::fabs(factor - number) < rounding::kFactor * number;
  };
  const char* power = is(count)              ? ""
                      : is(std::sqrt(count)) ? "the root of "
                      : is(count * count)    ? "the square of "
                                             : nullptr;
  return power == nullptr ? "" : fmt::format("{}{:.0f}", power, count);
}

// Random numbers: the same on all ranks where each should have its own part, or each rank's own.
std::optional<Cause> drawn(const MatchedCall& call) {
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
std::optional<Cause> made_alike(const MatchedCall& call) {
  return found(call, causes::kOnPieces,
               fmt::format("{} makes a tensor of the size of a piece, and the same one on all "
                           "ranks: it fits the first piece, not the others",
                           at(call)));
}

// The label of what the last reduction before a step was given.
const Label* reduced_before(const MatchedCall& call, const std::vector<MatchedCall>& calls) {
  for (const MatchedCall* step = &call; !step->producers.empty() && step->producers[0] >= 0;) {
    step = &calls[static_cast<std::size_t>(step->producers[0])];
    if (step->own().kind != LoggedCall::Kind::kCollective) continue;
    return step->operands[0] ? &*step->operands[0] : nullptr;
  }
  return nullptr;
}

// One factor for all that ranks hold. Terms that were reduced before say which mesh dim of
// several of one size: a sum is not to be divided, an average is.
std::optional<Cause> scaled(const StepsOnPath& of, const MatchedCall& call, const Form& form) {
  const MeshLayout& layout = *of.layout;
  double factor = 0;
  for (std::size_t i = 0; i < call.held.size(); ++i) {
    const auto &got = call.held[i]->results[0].reals, &right = form.parts[i].reals;
    const double a = largest_finite(got), b = largest_finite(right);
    if (a == 0 || b == 0 || got.size() != right.size()) return std::nullopt;
    if (factor == 0) factor = a / b;
    const double off = of.relative * a;
    for (std::size_t k = 0; k < got.size(); ++k) {
      if (!(std::fabs(got[k] - factor * right[k]) <= off)) return std::nullopt;
    }
  }
  const bool more = factor > 1;
  const Label* reduced = reduced_before(call, of.calls);
  std::optional<Cause> cause;
  for (std::uint32_t dims = 1; dims < 1U << layout.ndim(); ++dims) {
    double count = 1;
    bool fits = true;
    std::vector<std::string> names;
    for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
      if ((dims >> dim & 1) == 0) continue;
      count *= static_cast<double>(layout.size(dim));
      names.push_back(layout.names()[dim]);
      const auto meant = Placement::partial(more ? ReduceOp::kAvg : ReduceOp::kSum);
      fits = fits && reduced != nullptr && reduced->placements[dim] == meant;
    }
    const std::string times = times_text(more ? factor : 1 / factor, count);
    if (times.empty() || (cause && !fits)) continue;
    cause = found(call, causes::kFactor,
                  fmt::format("{} gives {}{}{} the expected value, and {:.0f} is the size of {}",
                              at(call), more ? "" : "1/", times, more ? " times" : " of", count,
                              text_of_list(names, " and ")));
    if (fits) break;
  }
  return cause;
}

// A collective on the path comes behind it.
bool is_reduced_later(const StepsOnPath& of, const MatchedCall& call) {
  const auto next = of.calls.begin() + (&call - of.calls.data());
  return std::any_of(next, of.calls.end(), [&](const MatchedCall& later) {
    return later.own().kind == LoggedCall::Kind::kCollective && of.has(later);
  });
}

// The first of the numbers that a call takes.
std::string first_number(const LoggedCall& call) {
  return call.numbers.substr(0, call.numbers.find(','));
}

// A division or a product of which each rank has its own number, told where that has its name.
std::optional<Cause> own_number(const StepsOnPath& of, const MatchedCall& call) {
  std::vector<std::string> numbers;
  for (const LoggedCall* own : call.held) {
    const std::string number = first_number(*own);
    if (std::ranges::count(numbers, number) == 0) numbers.push_back(number);
  }
  const bool divides = call.own().name().starts_with("div");
  if ((!divides && !call.own().name().starts_with("mul")) || numbers.size() < 2) return {};
  const bool mean = divides && is_reduced_later(of, call);
  Cause cause =
      found(call,
            mean      ? causes::kUnevenMean
            : divides ? causes::kUnequalNumber
                      : causes::kFactor,
            fmt::format("{} in line {} {} by each rank's own number, {}: {}",
                        divides ? "div" : "mul", call.own().position.line,
                        divides ? "divides" : "multiplies", text_of_list(numbers, " and "),
                        mean ? "an average of averages" : "one that all ranks have is meant"));
  const double first = std::strtod(numbers.front().c_str(), nullptr);
  const auto name = mean ? std::nullopt : of.number_in(cause.line, first, first);
  if (name) cause.line = name->second;
  return cause;
}

// A number of a piece, such as its length, where one device has that of the whole, told where it
// has its name; a number of ranks, 1 on one device, is a factor.
std::optional<Cause> of_other_number(const StepsOnPath& of, const MatchedCall& call, bool named) {
  const std::string own = first_number(call.own()),
                    meant = call.alone ? first_number(*call.alone) : own;
  if (own == meant || meant == "1" || by_rank(call)) return std::nullopt;
  const int line = call.own().position.line;
  const double of_rank = std::strtod(own.c_str(), nullptr),
               of_whole = std::strtod(meant.c_str(), nullptr);
  const auto name = of.number_in(line, of_rank, of_whole);
  if (named && !name) return std::nullopt;
  std::string part;
  for (std::size_t dim = 0; dim < of.layout->ndim(); ++dim) {
    const auto size = static_cast<double>(of.layout->size(dim));
    if (size == 1 || std::fabs(of_whole / of_rank - size) > size * 1e-9) continue;
    part =
        fmt::format(", and that is 1/{:.0f} of it, the size of {}", size, of.layout->names()[dim]);
  }
  return Cause{
      causes::kFactor,
      fmt::format("{} takes {}{}, a number of the rank's own piece, where one device has {}{}",
                  at(call), name ? fmt::format("{} of line {}, ", name->first, name->second) : "",
                  own, meant, part),
      name ? name->second : line};
}

// The number by which terms of a sum were scaled on the way to a step.
std::optional<Cause> scaled_before(const StepsOnPath& of, const MatchedCall& call) {
  for (const MatchedCall* step = &call; !step->producers.empty() && step->producers[0] >= 0;) {
    step = &of.calls[static_cast<std::size_t>(step->producers[0])];
    if (!step->results[0] || !step->results[0]->has_terms()) break;
    if (!step->own().name().starts_with("mul")) continue;
    if (auto cause = of_other_number(of, *step, true)) return cause;
  }
  return std::nullopt;
}

// Pieces of one operand are in the order of the ranks, those of another one are not.
std::optional<Cause> in_other_order(const MatchedCall& call, const MeshLayout& layout,
                                    std::size_t mesh_dim) {
  std::optional<std::size_t> in_order, moved;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const auto& label = call.operands[i];
    if (!label || !label->placements[mesh_dim].is_shard()) continue;
    auto& which = label->by_rows() ? moved : in_order;
    if (!which) which = i;
  }
  if (!in_order || !moved) return std::nullopt;
  return found(
      call, causes::kOtherChunk,
      fmt::format("{} puts pieces of dim {} that ranks took in another order with pieces "
                  "of dim {} in the order of {}",
                  at(call), call.operands[*moved]->placements[mesh_dim].dim,
                  call.operands[*in_order]->placements[mesh_dim].dim, layout.names()[mesh_dim]));
}

// The mesh dims that cut a dim of an operand, counted from its last one.
std::vector<std::string> cutting(const MatchedCall& call, std::size_t operand,
                                 std::int64_t from_end, const MeshLayout& layout) {
  const std::int64_t at = std::ssize(call.whole_operands[operand]->meta.shape) - from_end;
  std::vector<std::string> names;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    if (call.operands[operand]->placements[dim].is_shard(at)) names.push_back(layout.names()[dim]);
  }
  return names;
}

// Two operands of an op on single elements, of which other mesh dims cut the same dim.
std::optional<Cause> cut_by_another(const MatchedCall& call, const MeshLayout& layout) {
  const bool single = std::holds_alternative<PointwiseRule>(call.own().row->rule);
  if (!single || call.operands.size() != 2 || !call.operands[0] || !call.operands[1]) return {};
  const std::int64_t dims = std::ssize(call.whole_results[0]->meta.shape);
  for (std::int64_t from_end = 1; from_end <= dims; ++from_end) {
    const auto first = cutting(call, 0, from_end, layout),
               other = cutting(call, 1, from_end, layout);
    if (first.empty() || other.empty() || first == other) continue;
    return found(call, causes::kOtherChunk,
                 fmt::format("{} puts pieces that {} cuts with pieces of the same dim that {} cuts",
                             at(call), text_of_list(first, " and "), text_of_list(other, " and ")));
  }
  return std::nullopt;
}

// Rows that a mesh dim cuts, times columns that it cuts.
std::optional<Cause> of_blocks(const MatchedCall& call, const MeshLayout& layout) {
  if (call.operands.size() != 2 || !call.operands[0] || !call.operands[1]) return {};
  const Dims &held = call.own().results[0].meta.shape, &whole = call.whole_results[0]->meta.shape;
  std::size_t cut = 0;
  for (std::size_t i = 0; i < whole.size() && held.size() == whole.size(); ++i)
    cut += held[i] < whole[i] ? 1 : 0;
  for (std::size_t dim = 0; cut > 1 && dim < layout.ndim(); ++dim) {
    const bool both = std::ranges::all_of(
        call.operands, [&](const auto& label) { return label->placements[dim].is_shard(); });
    if (!both) continue;
    return found(
        call, causes::kOnPieces,
        fmt::format("{} multiplies rows and columns that {} cuts: each rank has a block of "
                    "what all rows and columns give",
                    at(call), layout.names()[dim]));
  }
  return std::nullopt;
}

class Accusation {
 public:
  explicit Accusation(const StepsOnPath& of)
      : of_(of), calls_(of.calls), layout_(*of.layout), relative_(of.relative) {}

  std::optional<Cause> of(const MatchedCall& call, const Form& form, std::size_t step) const {
    if (call.own().kind == LoggedCall::Kind::kCollective) {
      auto cause = accused_collective(of_, call);
      auto number = cause && cause->id == causes::kFactor ? scaled_before(of_, call) : std::nullopt;
      return number ? number : cause;
    }
    if (call.own().kind == LoggedCall::Kind::kGradient)
      return of_gradient(form, static_cast<std::ptrdiff_t>(step));
    if (draws(call.own().name())) return drawn(call);
    if (call.operands.empty()) return made_alike(call);
    if (auto other = cut_by_another(call, layout_)) return other;
    if (auto block = of_blocks(call, layout_)) return block;
    if (call.own().results[0].reals.size() > 1) {
      if (auto number = of_other_number(of_, call, true)) return number;
      if (auto factor = scaled(of_, call, form)) return factor;
    }
    // The mesh dim that cuts a dim which the call names explains more than others do, and one with
    // terms more than one that cuts.
    std::optional<Cause> cause;
    bool of_term = false;
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      auto lost = along(call, dim, form);
      if (lost && runs_along(call, dim)) return lost;
      const bool term = std::ranges::any_of(call.operands, [&](const auto& label) {
        return label && label->placements[dim].is_partial();
      });
      if (!lost || (cause && (of_term || !term))) continue;
      cause = std::move(lost);
      of_term = term;
    }
    if (cause) return cause;
    if (by_rank(call)) {
      if (auto number = own_number(of_, call)) return number;
      return found(call, causes::kOtherChunk,
                   fmt::format("{} takes another part than its rank's", at(call)));
    }
    if (auto first = first_part(call)) return first;
    auto factor = scaled(of_, call, form);
    return factor ? factor : of_other_number(of_, call, false);
  }

 private:
  bool runs_along(const MatchedCall& call, std::size_t mesh_dim) const {
    if (!call.operands[0]) return false;
    const Placement& placement = call.operands[0]->placements[mesh_dim];
    const auto ndim = static_cast<std::int64_t>(call.whole_operands[0]->meta.shape.size());
    return placement.is_shard() && std::ranges::any_of(call.own().dims, [&](std::int64_t dim) {
             return (dim < 0 ? dim + ndim : dim) == placement.dim;
           });
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
      if (auto mean = mean_of_counted(call, mesh_dim)) return mean;
    }
    if (term && !(cut && runs_along(call, mesh_dim))) {
      return of_term(call, *term, whole, mesh_dim, form);
    }
    // A product over the cut dim that is summed up later, and something whole besides.
    const bool terms = form.placements[mesh_dim].is_partial();
    if (cut && whole && terms && !runs_along(call, mesh_dim)) return added(call, *whole, mesh_dim);
    if (cut && !runs_along(call, mesh_dim)) {
      if (auto order = in_other_order(call, layout_, mesh_dim)) return order;
    }
    if (cut) return on_pieces(call, *cut, mesh_dim);
    return std::nullopt;
  }

  std::optional<Cause> of_term(const MatchedCall& call, std::size_t term,
                               std::optional<std::size_t> whole, std::size_t mesh_dim,
                               const Form& form) const {
    const std::string& name = layout_.names()[mesh_dim];
    const bool adds =
        whole && (call.own().name().starts_with("add") || call.own().name().starts_with("sub"));
    if (adds && form.placements[mesh_dim].is_partial()) {
      if (call.own().pass == Pass::kBackward) return of_gradient(form, &call - calls_.data());
      return added(call, *whole, mesh_dim);
    }
    const ReduceOp op = call.operands[term]->placements[mesh_dim].op;
    // An extreme that was reduced over another group is a scale or a shift for all ranks.
    const int maker = term < call.producers.size() ? call.producers[term] : -1;
    if (is_extreme(op) && maker >= 0 && is_collective(maker)) {
      const MatchedCall& made = calls_[static_cast<std::size_t>(maker)];
      if (made.results.size() == 1 && made.results[0]) return terms_of(layout_, made);
    }
    return found(call, is_extreme(op) ? causes::kOtherReduction : causes::kMissingSum,
                 fmt::format("{} takes a term of {} over {} for the whole: an all_reduce with {} "
                             "over {} is missing before it",
                             at(call), shardlab::text_of(op), name, to_string(op), name));
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
  std::optional<Cause> of_gradient(const Form& form, std::ptrdiff_t step) const {
    const LoggedCall* reduced = nullptr;
    for (int i = 0; i < step; ++i) {
      const MatchedCall& call = calls_[static_cast<std::size_t>(i)];
      if (is_collective(i) && of_.has(call)) reduced = &call.own();
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
  auto by_place(const MatchedCall& call, std::size_t operand, std::size_t mesh_dim,
                const Number& number) const {
    std::vector<decltype(number(GlobalValue()))> result;
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
    return fmt::format(
        "dim {}, which {} cuts: each rank has its own {}", dim, layout_.names()[mesh_dim],
        all_equal(sizes) ? whole : text_of_list(sizes, " + ") + " in pieces of their own size");
  }

  std::optional<Cause> on_pieces(const MatchedCall& call, std::size_t operand,
                                 std::size_t mesh_dim) const {
    return found(
        call, causes::kOnPieces,
        fmt::format("{} runs on pieces of {}", at(call), cut_text(call, operand, mesh_dim)));
  }

  // An average, maximum or minimum of pieces is a term, and the mistake is where it was taken;
  // unless it was reduced in between, over another mesh dim.
  std::optional<Cause> average_for_whole(const MatchedCall& call, std::size_t mesh_dim) const {
    std::vector<int> open;
    const auto follow = [&](const MatchedCall& one) {
      for (std::size_t i = 0; i < one.operands.size() && i < one.producers.size(); ++i) {
        if (!one.operands[i]) continue;
        const Placement& placement = one.operands[i]->placements[mesh_dim];
        const bool average = placement.is_partial() && placement.op != ReduceOp::kSum;
        const int maker = one.producers[i];
        if (!average || maker < 0 || is_collective(maker)) continue;
        open.push_back(maker);
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

  bool is_collective(int step) const {
    return calls_[static_cast<std::size_t>(step)].own().kind == LoggedCall::Kind::kCollective;
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
      return found(
          call, causes::kUnevenMean,
          fmt::format("{} is a mean over dim {}, which {} cuts into {}: an average of "
                      "averages",
                      mean_at(call), dim, layout_.names()[mesh_dim], text_of_list(sizes, " + ")));
    }
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (!call.whole_operands[i]->is_integral()) continue;
      if (auto mean = mean_over(call, mesh_dim, counted(call, i, mesh_dim))) return mean;
    }
    return std::nullopt;
  }

  // A rank's sum over its own count, which is reduced later.
  std::optional<Cause> mean_of_counted(const MatchedCall& call, std::size_t mesh_dim) const {
    const bool divides = call.own().name() == "div" && call.operands.size() == 2 &&
                         call.operands[1] && product(call.whole_operands[1]->meta.shape) == 1;
    if (!divides || !is_reduced_later(of_, call)) return std::nullopt;
    return mean_over(call, mesh_dim, by_place(call, 1, mesh_dim, [](const GlobalValue& value) {
                       return value.is_integral() ? static_cast<double>(value.integers[0])
                                                  : value.reals[0];
                     }));
  }

  std::optional<Cause> mean_over(const MatchedCall& call, std::size_t mesh_dim,
                                 const std::vector<double>& counts) const {
    const auto whole = [](double count) { return count == std::round(count); };
    if (!std::ranges::all_of(counts, whole)) return std::nullopt;  // sums of other numbers
    const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
    const auto share = [&](std::size_t index) {
      const Coordinate own = layout_.coordinate_at_index(static_cast<std::int64_t>(index));
      return counts[static_cast<std::size_t>(own[mesh_dim])] / all;
    };
    if (all == 0 || all_equal(counts) || !weighted(call, mesh_dim, share)) return std::nullopt;
    std::vector<std::string> texts;
    for (const double count : counts) texts.push_back(fmt::format("{:g}", count));
    return found(call, causes::kUnevenMean,
                 fmt::format("{} is a mean over counts that differ along {}, {}: an average of "
                             "averages",
                             mean_at(call), layout_.names()[mesh_dim], text_of_list(texts, " + ")));
  }

  // Elements that count: indices that are not negative, entries of a mask that are not 0.
  std::vector<double> counted(const MatchedCall& call, std::size_t operand,
                              std::size_t mesh_dim) const {
    const bool mask = call.whole_operands[operand]->meta.dtype == DType::kBool;
    const auto counts = [&](std::int64_t value) { return mask ? value != 0 : value >= 0; };
    return by_place(call, operand, mesh_dim, [&](const GlobalValue& piece) {
      return static_cast<double>(std::ranges::count_if(piece.integers, counts));
    });
  }

  // The ranks' results, each times its share of the whole, are what one device has.
  template <typename Share>
  bool weighted(const MatchedCall& call, std::size_t mesh_dim, const Share& share) const {
    std::vector<GlobalValue> terms;
    for (std::size_t index = 0; index < call.held.size(); ++index) {
      const std::vector<GlobalValue>& results = call.held[index]->results;
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

  const StepsOnPath& of_;
  const std::vector<MatchedCall>& calls_;
  const MeshLayout& layout_;
  const double relative_;
};

}  // namespace

bool StepsOnPath::has(const MatchedCall& call) const {
  const SourcePosition& at = call.own().position;
  if (call.own().kind == LoggedCall::Kind::kGradient) return by_backward;
  return path.contains({at.line, at.column});
}

std::optional<Cause> accused_of(const StepsOnPath& of, const MatchedCall& call, const Form& form,
                                std::size_t step) {
  return Accusation(of).of(call, form, step);
}

}  // namespace shardlab
