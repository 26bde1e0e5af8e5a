// Each hypothesis is one function that returns its sentence or nothing; the table gives their
// order: the values of ranks come before the look of the whole value, because they explain more.
#include "sim/verify/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/text.h"
#include "comm/verdict.h"
#include "mesh/local_shape.h"
#include "sim/verify/compare.h"
#include "sim/verify/held_numbers.h"
#include "sim/verify/labels/label.h"
#include "sim/verify/labels/row_order.h"

namespace shardlab {

namespace {

using Numbers = std::vector<double>;
using Sentence = std::optional<std::string>;

bool same(const Numbers& a, const Numbers& b, double relative) {
  return !a.empty() && all_close(a, b, relative * std::max(largest_finite(a), largest_finite(b)));
}

Numbers times(const Numbers& a, double factor) {
  Numbers result = a;
  for (double& number : result) number *= factor;
  return result;
}

Numbers minus(const Numbers& a, const Numbers& b) {
  Numbers result = a;
  for (std::size_t i = 0; i < a.size(); ++i) result[i] -= b[i];
  return result;
}

// The one factor with a = factor * b, if there is one.
std::optional<double> factor_between(const Numbers& a, const Numbers& b, double relative) {
  if (a.size() != b.size() || a.empty()) return std::nullopt;
  const auto at = std::max_element(b.begin(), b.end(),
                                   [](double x, double y) { return std::fabs(x) < std::fabs(y); });
  if (*at == 0 || !std::isfinite(*at)) return std::nullopt;
  const double factor = a[static_cast<std::size_t>(at - b.begin())] / *at;
  if (!std::isfinite(factor) || factor == 0) return std::nullopt;
  return same(a, times(b, factor), relative) ? std::optional(factor) : std::nullopt;
}

bool close_to(double number, double other) {
  return std::fabs(number - other) <= rounding::kFactor * std::fabs(other);
}

// "4 times", "1/4 of"; empty for factors that no count explains.
std::string factor_text(double factor) {
  if (close_to(factor, std::round(factor))) return fmt::format("{:.0f} times", std::round(factor));
  const double inverse = 1 / factor;
  if (close_to(inverse, std::round(inverse)))
    return fmt::format("1/{:.0f} of", std::round(inverse));
  return {};
}

// The source of this factor: "4 is the size of mesh dim tp".
std::string source_of(double factor, const Evidence& evidence) {
  const double count = factor < 1 ? 1 / factor : factor;
  std::string text;
  for (const NamedCount& named : evidence.counts) {
    if (named.count < 2 || !close_to(count, static_cast<double>(named.count))) continue;
    if (!text.empty() && !named.of_mesh) break;
    text += text.empty() ? fmt::format("{} is {}", named.count, named.what) : " and " + named.what;
  }
  return text;
}

// A sum over a mesh dim of the same size in place of one over `mesh_dim` gives the same numbers.
std::string or_over_another(const Evidence& evidence, std::size_t mesh_dim) {
  const MeshLayout& layout = *evidence.layout;
  for (std::size_t other = 0; other < layout.ndim(); ++other) {
    if (other == mesh_dim || layout.size(other) != layout.size(mesh_dim)) continue;
    return fmt::format(", or a sum over {} is where one over {} is meant", layout.names()[other],
                       layout.names()[mesh_dim]);
  }
  return {};
}

bool one_holds_all(const Evidence& evidence) {
  return one_holds_all(evidence.held, evidence.expected, evidence.relative);
}

bool has_pieces(const Evidence& evidence) {
  return evidence.spec != nullptr && !is_complex(evidence.got.meta.dtype) &&
         std::ranges::any_of(evidence.spec->placements(),
                             [](const Placement& placement) { return placement.is_shard(); });
}

// Ranks hold different values where one is expected: their sum, mean or largest may be meant.
Sentence not_reduced(const Evidence& evidence) {
  const bool terms = evidence.spec != nullptr && evidence.spec->has_partial();
  if (evidence.layout == nullptr || evidence.held.empty() || terms) return std::nullopt;
  const auto label =
      label_of(evidence.held, evidence.expected, *evidence.layout, evidence.relative);
  if (!label || label->by_rows()) return std::nullopt;
  std::string text;
  int reductions = 0;
  for (std::size_t dim = 0; dim < label->placements.size(); ++dim) {
    const Placement found = label->placements[dim];
    const Placement own =
        evidence.spec != nullptr ? evidence.spec->placement(dim) : Placement::replicate();
    if (found == own) continue;
    if (!found.is_partial() || !own.is_replicate() || found.op == ReduceOp::kMin) return {};
    if (found.op == ReduceOp::kMax && one_holds_all(evidence)) return std::nullopt;
    // Equal terms are a replica that is off by a factor.
    if (alike_along(evidence.held, *evidence.layout, dim)) return std::nullopt;
    const bool mean = found.op == ReduceOp::kAvg;
    ++reductions;
    text += fmt::format(
        "{0}the ranks along {1} hold different values whose {2} is the expected one: an all_reduce "
        "with {3} over {1} is missing{4}",
        text.empty() ? "" : "; ", evidence.layout->names()[dim],
        mean                         ? "mean"
        : found.op == ReduceOp::kMax ? "largest"
                                     : "sum",
        to_string(found.op), mean ? or_over_another(evidence, dim) : "");
  }
  const bool labelled = evidence.gradient && (reductions > 1 || has_pieces(evidence));
  return text.empty() || labelled ? std::nullopt : std::optional(text);
}

Sentence factor_off(const Evidence& evidence) {
  const auto factor =
      factor_between(evidence.got.reals, evidence.expected.reals, evidence.relative);
  if (!factor || close_to(*factor, 1)) return std::nullopt;
  const std::string text = factor_text(*factor), source = source_of(*factor, evidence);
  if (text.empty()) return std::nullopt;
  if (source.empty()) return fmt::format("it is {} the expected value", text);
  const char* mistake = *factor > 1 ? "summed once too often, or a division by it is missing"
                                    : "divided once too often, or a sum over it is missing";
  return fmt::format("it is {} the expected value, and {}: {}", text, source, mistake);
}

// Elements of `value` spread over the shape of `like`, as broadcasting does; empty where it can't.
Numbers broadcast(const GlobalValue& value, const TensorMeta& like) {
  const Dims &from = value.meta.shape, &to = like.shape;
  if (is_complex(value.meta.dtype) || from.size() > to.size()) return {};
  const std::size_t missing = to.size() - from.size();
  for (std::size_t dim = 0; dim < from.size(); ++dim) {
    if (from[dim] != 1 && from[dim] != to[missing + dim]) return {};
  }
  Numbers result(static_cast<std::size_t>(product(to)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t at = 0, stride = 1;
    for (std::size_t dim = to.size(); dim-- > 0;) {
      const std::int64_t index = rest % to[dim];
      rest /= to[dim];
      if (dim < missing) continue;
      const std::int64_t size = from[dim - missing];
      at += (size == 1 ? 0 : index) * stride;
      stride *= size;
    }
    result[i] = value.reals[static_cast<std::size_t>(at)];
  }
  return result;
}

// w - lr * g with a wrong g: the value added to a known value is off by a factor.
Sentence step_off(const Evidence& evidence) {
  for (const KnownValue& known : evidence.known) {
    const Numbers base = broadcast(known.value, evidence.expected.meta);
    if (base.empty() || largest_finite(base) == 0) continue;
    const auto factor =
        factor_between(minus(evidence.got.reals, base), minus(evidence.expected.reals, base),
                       rounding::kDifference * evidence.relative);
    if (!factor || close_to(*factor, 1)) continue;
    const std::string text = factor_text(*factor), source = source_of(*factor, evidence);
    if (text.empty() || source.empty()) continue;
    return fmt::format(
        "its difference from {} is {} the expected one, and {}: what is added to {} was summed {}",
        known.name, text, source, known.name,
        *factor > 1 ? "without dividing by it" : "too seldom, or divided once too often");
  }
  return std::nullopt;
}

// The elements of `whole` that each rank's piece covers, by mesh index.
std::vector<Numbers> pieces_of(const GlobalValue& whole, const DTensorSpec& spec) {
  std::vector<Numbers> pieces;
  for (std::int64_t i = 0; i < spec.layout()->size(); ++i) {
    const LocalView view = local_view(spec, spec.layout()->coordinate_at_index(i));
    Numbers& piece = pieces.emplace_back();
    for_each_element(
        view, [&](std::size_t, std::size_t global) { piece.push_back(whole.reals[global]); });
  }
  return pieces;
}

// Rank r holds the piece of rank s.
Sentence chunk_of_another(const Evidence& evidence) {
  if (!has_pieces(evidence) || evidence.spec->has_partial()) return std::nullopt;
  const auto got = pieces_of(evidence.got, *evidence.spec);
  const auto expected = pieces_of(evidence.expected, *evidence.spec);
  const auto rank_at = [&](std::size_t index) {
    return evidence.spec->layout()->rank_at_index(static_cast<std::int64_t>(index));
  };
  std::vector<std::string> moved;
  std::set<std::size_t> sources;
  for (std::size_t r = 0; r < got.size(); ++r) {
    if (got[r].empty() || same(got[r], expected[r], evidence.relative)) continue;
    std::size_t s = 0;
    while (s < got.size() && !same(got[r], expected[s], evidence.relative)) ++s;
    if (s == got.size()) return std::nullopt;
    sources.insert(s);
    moved.push_back(fmt::format("rank {} holds the piece of rank {}", rank_at(r), rank_at(s)));
  }
  if (moved.empty()) return std::nullopt;
  if (moved.size() > 1 && sources.size() == 1) {
    return fmt::format("all ranks hold the piece of rank {}: it was taken, drawn or made alike",
                       rank_at(*sources.begin()));
  }
  constexpr std::size_t kMostShown = 4;
  const std::size_t more = moved.size() - std::min(moved.size(), kMostShown);
  moved.resize(moved.size() - more);
  return fmt::format("{}{}: chunks are swapped, or ranks are counted in another order",
                     text_of_list(moved, ", "), more > 0 ? fmt::format(", and {} more", more) : "");
}

// Pieces of a zigzag, of heads, of experts: taken in one order and put together in another.
Sentence rows_in_another_order(const Evidence& evidence) {
  if (evidence.spec == nullptr || evidence.spec->has_partial()) return std::nullopt;
  const auto order = row_order(evidence.got, evidence.expected, evidence.relative);
  if (!order) return std::nullopt;
  constexpr std::size_t kMostShown = 12;
  const std::size_t shown = std::min(kMostShown, order->rows.size());
  return fmt::format(
      "along dim {} it has the right rows in another order, {}{}: pieces are taken in one order "
      "and "
      "put together in another",
      order->dim, text_of_list(std::span(order->rows).first(shown), ", "),
      shown < order->rows.size() ? ", ..." : "");
}

// A table's rows that were taken for others, or that were added to them.
Sentence other_rows(const Evidence& evidence) {
  const Dims& shape = evidence.expected.meta.shape;
  for (const KnownValue& known : evidence.known) {
    const Dims& table = known.value.meta.shape;
    if (table.size() < 2 || shape.empty() || table.back() < 2 || table.back() != shape.back()) {
      continue;
    }
    const auto width = static_cast<std::size_t>(shape.back());
    const auto row_at = [&](const Numbers& all, std::size_t row) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * width);
      return Numbers(begin, begin + static_cast<std::ptrdiff_t>(width));
    };
    const auto find = [&](const Numbers& row) -> std::optional<std::size_t> {
      for (std::size_t i = 0; i < known.value.reals.size() / width; ++i) {
        if (same(row_at(known.value.reals, i), row, evidence.relative)) return i;
      }
      return std::nullopt;
    };
    std::string text;
    bool all = true;
    for (std::size_t i = 0; i < evidence.expected.reals.size() / width && all; ++i) {
      const Numbers got = row_at(evidence.got.reals, i), right = row_at(evidence.expected.reals, i);
      if (same(got, right, evidence.relative)) continue;
      const auto wanted = find(right), taken = find(got), more = find(minus(got, right));
      all = wanted && (taken || more);
      if (!all || !text.empty()) continue;
      text = taken ? fmt::format("its row {} is row {} of {}, not row {}", i, *taken, known.name,
                                 *wanted)
                   : fmt::format("its row {} is row {} of {} with row {} added", i, *wanted,
                                 known.name, *more);
    }
    if (all && !text.empty()) return text + ": ranks look up rows that are not theirs";
  }
  return std::nullopt;
}

std::string number_list(const UnequalNumber& number) {
  std::string text;
  for (const auto& [rank, value] : number.on_ranks) {
    text += fmt::format("{}{:.6g} on rank {}", text.empty() ? "" : ", ", value, rank);
  }
  return text;
}

// A Python number that came from a local tensor: item() of a piece.
Sentence number_of_a_rank(const Evidence& evidence) {
  if (evidence.numbers.empty()) return std::nullopt;
  const UnequalNumber& number = evidence.numbers.front();
  return fmt::format(
      "{} is not the same on all ranks: {}; it was read from a local tensor and never reduced",
      number.name, number_list(number));
}

// The ranks' tensors are right under another label than their own.
Sentence other_label(const Evidence& evidence) {
  if (evidence.spec == nullptr || evidence.layout == nullptr || evidence.held.empty()) {
    return std::nullopt;
  }
  const auto label =
      label_of(evidence.held, evidence.expected, *evidence.layout, evidence.relative);
  if (!label) return std::nullopt;
  const std::string fits = arguments_of(*label, *evidence.layout);
  const std::string own = arguments_of(*evidence.spec);
  if (fits == own) return std::nullopt;
  const bool extreme = std::ranges::any_of(label->placements, [](const Placement& placement) {
    return placement.is_partial() && is_extreme(placement.op);
  });
  if (extreme && one_holds_all(evidence)) return std::nullopt;
  return fmt::format("under the label {} the ranks' tensors make the expected value: {} is another",
                     fits, own);
}

// Numbers that keep a division from zero make the factor inexact. For a single number any factor
// fits: there it has to be a count.
Sentence one_factor(const Evidence& evidence) {
  const auto factor =
      factor_between(evidence.got.reals, evidence.expected.reals, rounding::kFactor);
  if (!factor || close_to(*factor, 1)) return std::nullopt;
  const std::string source = source_of(*factor, evidence), text = factor_text(*factor);
  if (text.empty() && source.empty() && evidence.expected.reals.size() == 1) return std::nullopt;
  return fmt::format("it is {} the expected value, on every rank and for every element{}",
                     text.empty() ? fmt::format("{:.4g} times", *factor) : text,
                     source.empty() ? "" : ", and " + source);
}

// The ranks whose pieces are right narrow the search: a mask or an offset of one rank, or an op on
// all.
Sentence right_on_some(const Evidence& evidence) {
  if (!has_pieces(evidence)) return std::nullopt;
  const auto got = pieces_of(evidence.got, *evidence.spec);
  const auto expected = pieces_of(evidence.expected, *evidence.spec);
  std::vector<std::int64_t> right, wrong;
  for (std::size_t r = 0; r < got.size(); ++r) {
    if (got[r].empty()) continue;
    auto& which = same(got[r], expected[r], evidence.relative) ? right : wrong;
    which.push_back(evidence.spec->layout()->rank_at_index(static_cast<std::int64_t>(r)));
  }
  std::ranges::sort(right);
  std::ranges::sort(wrong);
  if (wrong.empty()) return std::nullopt;
  if (right.empty()) return "the pieces of all ranks are wrong";
  return fmt::format("the pieces of {} are right, those of {} are wrong", fold_ranks(right),
                     fold_ranks(wrong));
}

// Pieces of one tensor dim that a program puts together along another one, as an all_gather into
// one tensor does.
struct JoinedAlong {
  std::int64_t pieces = 0;
  std::size_t cut = 0;     // the dim of the whole value that is cut into them
  std::size_t joined = 0;  // the dim along which they follow each other
};

std::vector<double> rearranged(const GlobalValue& whole, const JoinedAlong& way) {
  const Dims& shape = whole.meta.shape;
  Dims joined = shape;
  joined[way.cut] /= way.pieces;
  joined[way.joined] *= way.pieces;
  std::vector<double> numbers;
  numbers.reserve(whole.reals.size());
  Dims index(shape.size());
  for (std::size_t at = 0; at < whole.reals.size(); ++at) {
    std::int64_t source = 0;
    const std::int64_t piece = index[way.joined] / shape[way.joined];
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      std::int64_t place = index[dim];
      if (dim == way.joined) place %= shape[dim];
      if (dim == way.cut) place += piece * joined[dim];
      source = source * shape[dim] + place;
    }
    numbers.push_back(whole.reals[static_cast<std::size_t>(source)]);
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      if (++index[dim] < joined[dim]) break;
      index[dim] = 0;
    }
  }
  return numbers;
}

// The dims with which `got`, of any shape, has the elements of `whole`: cut evenly into as many
// pieces as a mesh dim or the mesh has ranks, which follow each other along another dim. Nothing if
// no two dims fit, and if the order is that of the whole. Each order is made and compared: there
// are few dims and few counts of ranks.
std::optional<JoinedAlong> joined_along(const GlobalValue& got, const GlobalValue& whole,
                                        const MeshLayout& layout, double relative) {
  const auto numel = static_cast<std::int64_t>(whole.reals.size());
  if (got.reals.size() != whole.reals.size() || numel != product(whole.meta.shape) ||
      numel > kMostLabelled) {
    return std::nullopt;
  }
  const double allowed = relative * largest_finite(whole.reals);
  if (all_close(got.reals, whole.reals, allowed)) return std::nullopt;
  std::set<std::int64_t> counts = {layout.size()};
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) counts.insert(layout.size(dim));
  for (const std::int64_t pieces : counts) {
    for (std::size_t cut = 0; cut < whole.meta.shape.size(); ++cut) {
      if (pieces < 2 || whole.meta.shape[cut] % pieces != 0) continue;
      for (std::size_t joined = 0; joined < whole.meta.shape.size(); ++joined) {
        const JoinedAlong way{pieces, cut, joined};
        if (joined != cut && all_close(got.reals, rearranged(whole, way), allowed)) return way;
      }
    }
  }
  return std::nullopt;
}

Sentence joined_elsewhere(const Evidence& evidence) {
  const auto way =
      joined_along(evidence.got, evidence.expected, *evidence.layout, evidence.relative);
  if (!way) return std::nullopt;
  return fmt::format(
      "{} pieces of dim {} are put together along dim {}: an all_gather into one "
      "tensor joins along dim 0; cut its result again and join along dim {}",
      way->pieces, way->cut, way->joined, way->cut);
}

struct Hypothesis {
  std::string_view id;
  Sentence (*says)(const Evidence&);
};

constexpr Hypothesis kHypotheses[] = {
    {causes::kMissingSum, not_reduced},      {causes::kFactor, factor_off},
    {causes::kOtherLabel, other_label},      {causes::kOtherLabel, joined_elsewhere},
    {causes::kOtherChunk, chunk_of_another}, {causes::kUnequalNumber, number_of_a_rank},
};

// A single number is often a multiple of another: there these come after a call that lost the
// meaning.
constexpr Hypothesis kWeaker[] = {{causes::kFactor, step_off}};

constexpr Hypothesis kLastResort[] = {
    {causes::kOtherChunk, rows_in_another_order},
    {causes::kOtherChunk, other_rows},
    {causes::kOneFactor, one_factor},
    {causes::kSomeRanks, right_on_some},
};

bool comparable(const Evidence& evidence) {
  return evidence.got.reals.size() == evidence.expected.reals.size() && !evidence.got.reals.empty();
}

Cause first_of(std::span<const Hypothesis> hypotheses, const Evidence& evidence) {
  for (const Hypothesis& hypothesis : hypotheses) {
    if (Sentence sentence = hypothesis.says(evidence)) return {hypothesis.id, *sentence};
  }
  return {};
}

}  // namespace

Cause cause_of(const Evidence& evidence) {
  if (comparable(evidence)) {
    Cause cause = first_of(kHypotheses, evidence);
    const bool weaker = cause.empty() && evidence.expected.reals.size() > 1;
    return weaker ? first_of(kWeaker, evidence) : cause;
  }
  const Sentence label = other_label(evidence);
  return label ? Cause{causes::kOtherLabel, *label} : Cause{};
}

Cause last_resort(const Evidence& evidence) {
  Cause cause;
  if (comparable(evidence)) cause = first_of(kWeaker, evidence);
  if (cause.empty() && comparable(evidence)) cause = first_of(kLastResort, evidence);
  return cause.empty() ? Cause{causes::kNone, std::string(kNoCause)} : cause;
}

}  // namespace shardlab
