// A part is a box of the whole, or rows of it. Terms are added up over each kind of groups. If
// elements are not known, sums of them and of their magnitudes decide.
#include "sim/replay/explain.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sim/verify/compare.h"
#include "sim/verify/held_numbers.h"

namespace shardlab {

namespace {

constexpr std::int64_t kMostLabels = 1 << 14;  // lines that are looked for one by one

// The boxes of the whole, and their elements against those of a part.
class Boxes {
 public:
  explicit Boxes(const PointPart& whole) : whole_(whole) {}

  // Whether `is(offset)` of a box of the part's shape. Offsets are multiples of the length, counted
  // from either end: lengths of uneven cuts differ by one, or the last ones are shorter.
  template <typename Is>
  bool any_box(const PointPart& part, const Is& is) {
    Dims offset(part.shape.size(), 0);
    return any_box(part, offset, 0, is);
  }
  template <typename Is>
  bool any_box(const PointPart& part, Dims& offset, std::size_t dim, const Is& is) {
    if (dim == part.shape.size()) return is(std::as_const(offset));
    const std::int64_t last = whole_.shape[dim] - part.shape[dim];
    const std::int64_t step = std::max<std::int64_t>(part.shape[dim], 1);
    const std::int64_t rest = last % step;
    for (std::int64_t begin = 0; begin <= last; begin += step) {
      offset[dim] = begin;
      if (any_box(part, offset, dim + 1, is)) return true;
      offset[dim] = begin + rest;
      const bool other = rest != 0 && offset[dim] <= last;
      if (other && any_box(part, offset, dim + 1, is)) return true;
    }
    return false;
  }

  // Whether `is(got, expected)` of each element of the part and that of the box.
  template <typename Is>
  bool all_pairs(const PointPart& part, const Dims& offset, const Is& is) const {
    std::size_t i = 0;
    bool all = true;
    for_each_index(part, offset, [&](std::size_t at) {
      all = is(part.elements[i], whole_.elements[at]);
      ++i;
      return all;
    });
    return all;
  }
  // visit(index of the whole) for each element of the part, until it says false.
  template <typename Visit>
  void for_each_index(const PointPart& part, const Dims& offset, const Visit& visit) const {
    Dims index(part.shape.size(), 0);
    for (std::size_t i = 0; i < part.elements.size(); ++i) {
      std::size_t at = 0;
      for (std::size_t dim = 0; dim < index.size(); ++dim) {
        at = at * static_cast<std::size_t>(whole_.shape[dim]) +
             static_cast<std::size_t>(offset[dim] + index[dim]);
      }
      if (!visit(at)) return;
      for (std::size_t dim = index.size(); dim-- > 0;) {
        if (++index[dim] < part.shape[dim]) break;
        index[dim] = 0;
      }
    }
  }

  // The part against the box there, as if it were a multiple; 0: it cannot be.
  double factor_at(const PointPart& part, const Dims& offset) const {
    double product = 0, square = 0;
    all_pairs(part, offset, [&](double got, double expected) {
      product += got * expected;
      square += expected * expected;
      return true;
    });
    return square > 0 && std::isfinite(product) ? product / square : 0;
  }

 protected:
  const PointPart& whole_;
};

// Whether a part is one of the whole, or of a multiple of it, up to what is allowed.
class Matcher : protected Boxes {
 public:
  Matcher(const PointPart& whole, double allowed, bool open)
      : Boxes(whole), largest_(largest_finite(whole.elements)), allowed_(allowed), open_(open) {}

 protected:
  bool fits(const PointPart& part) const {
    if (part.shape.size() != whole_.shape.size())
      return part.elements.size() == whole_.elements.size();
    for (std::size_t i = 0; i < part.shape.size(); ++i) {
      if (part.shape[i] > whole_.shape[i]) return false;
    }
    return true;
  }

  bool near(double got, double expected, double factor) {
    expected *= factor;
    if (open_ && std::isnan(expected)) return true;
    if (!std::isfinite(got) || !std::isfinite(expected)) {
      return std::isnan(expected) ? std::isnan(got) : got == expected;
    }
    const double off = std::fabs(got - expected);
    if (off > allowed_ * std::fabs(factor)) return false;
    worst_ = std::max(worst_, off / std::max(largest_ * std::fabs(factor), 1e-300));
    return true;
  }

  // `lines`: in any order, too.
  bool is_part(const PointPart& part, double factor, bool lines = true) {
    if (part.elements.size() == whole_.elements.size()) {
      return std::ranges::equal(part.elements, whole_.elements, [&](double got, double expected) {
        return near(got, expected, factor);
      });
    }
    if (part.shape.size() != whole_.shape.size()) return false;
    return is_box(part, factor) || is_padded(part, factor) || (lines && has_lines(part, factor));
  }

  // The last piece of rows that are cut evenly may end in rows of zeros. `found`: as has_lines().
  bool is_padded(const PointPart& part, double factor, std::vector<bool>* found = nullptr) {
    if (part.elements.empty() || !has_rows_of_whole(part)) return false;
    const auto last = std::find_if(part.elements.rbegin(), part.elements.rend(),
                                   [](double element) { return element != 0; });
    const std::int64_t row = product(part.shape) / part.shape[0];
    const std::int64_t zeros = (last - part.elements.rbegin()) / row;
    PointPart rows{.shape = part.shape, .elements = part.elements};
    for (std::int64_t padding = 1; padding <= zeros && rows.shape[0] > 1; ++padding) {
      --rows.shape[0];
      rows.elements.resize(static_cast<std::size_t>(product(rows.shape)));
      Dims offset(part.shape.size(), 0);
      offset[0] = whole_.shape[0] - rows.shape[0];
      if (!is_at(rows, offset, factor)) continue;
      if (found != nullptr)
        for_each_index(rows, offset, [&](std::size_t at) { return (*found)[at] = true; });
      return true;
    }
    return false;
  }

  bool has_rows_of_whole(const PointPart& part) const {
    return part.shape.size() == whole_.shape.size() && !part.shape.empty() &&
           std::equal(part.shape.begin() + 1, part.shape.end(), whole_.shape.begin() + 1);
  }

  // The last ones of pieces that are cut evenly may be nothing but zeros.
  bool is_padding(const std::vector<PointPart>& parts, std::size_t i) const {
    const PointPart& part = parts[i];
    if (!has_rows_of_whole(part) || part.elements.empty()) return false;
    const auto ranks = static_cast<std::int64_t>(parts.size());
    const std::int64_t rows = part.shape[0], all = whole_.shape[0];
    return rows == (all + ranks - 1) / ranks && static_cast<std::int64_t>(i) * rows >= all &&
           std::ranges::count(part.elements, 0) == std::ssize(part.elements);
  }

  bool is_at(const PointPart& part, const Dims& offset, double factor) {
    return all_pairs(part, offset,
                     [&](double got, double expected) { return near(got, expected, factor); });
  }

  // The nearest of the boxes that are near enough.
  bool is_box(const PointPart& part, double factor) {
    const double before = worst_;
    std::optional<double> nearest;
    any_box(part, [&](const Dims& offset) {
      worst_ = 0;
      const bool here = is_at(part, offset, factor);
      if (here && worst_ < nearest.value_or(INFINITY)) nearest = worst_;
      return here && worst_ == 0;
    });
    worst_ = std::max(before, nearest.value_or(0));
    return nearest.has_value();
  }

  // Lines of the whole in any order along one dim: rows of a batch whose dims were made one,
  // labels, columns of queries, keys and values that were made at once and are cut by heads. Along
  // other dims it is a box.
  bool has_lines(const PointPart& part, double factor, std::vector<bool>* found = nullptr) {
    for (std::size_t dim = 0; dim < part.shape.size(); ++dim) {
      const std::int64_t lines = part.shape[dim], all = whole_.shape[dim];
      if (lines == all || lines == 0 || lines > kMostLabels || all > kMostLabels) continue;
      PointPart frame{.shape = part.shape, .elements = {}};
      frame.shape[dim] = all;
      const auto has = [&](const Dims& offset) {
        return has_lines(part, dim, offset, factor, found);
      };
      if (any_box(frame, has)) return true;
    }
    return false;
  }

  // `found`: null, or by element of the whole: those of the lines become true.
  bool has_lines(const PointPart& part, std::size_t dim, const Dims& offset, double factor,
                 std::vector<bool>* found) {
    PointPart line{.shape = part.shape, .elements = {}};
    line.shape[dim] = 1;
    line.elements.resize(static_cast<std::size_t>(product(line.shape)));
    std::vector<std::size_t> there;
    for_each_index(line, offset, [&](std::size_t at) {
      there.push_back(at);
      return true;
    });
    const auto length = [&](const Dims& shape) {
      return static_cast<std::size_t>(product(Dims(shape.begin() + dim + 1, shape.end())));
    };
    const std::size_t inner = length(part.shape), apart = length(whole_.shape);
    const auto lines = static_cast<std::size_t>(part.shape[dim]);
    const auto is = [&](std::size_t own, std::size_t other) {
      const double before = worst_;
      for (std::size_t i = 0; i < there.size(); ++i) {
        const std::size_t at = (i / inner * lines + own) * inner + i % inner;
        if (!near(part.elements[at], whole_.elements[there[i] + other * apart], factor)) {
          worst_ = before;
          return false;
        }
      }
      return true;
    };
    const double before = worst_;
    std::size_t next = 0;  // behind the one before it, most often
    std::vector<std::size_t> taken;
    for (std::size_t own = 0; own < lines; ++own) {
      const auto all = static_cast<std::size_t>(whole_.shape[dim]);
      std::size_t tried = 0;
      while (tried < all && !is(own, (next + tried) % all)) ++tried;
      if (tried == all) {
        worst_ = before;
        return false;
      }
      taken.push_back((next + tried) % all);
      next = (taken.back() + 1) % all;
    }
    for (std::size_t i = 0; found != nullptr && i < taken.size() * there.size(); ++i) {
      (*found)[there[i % there.size()] + taken[i / there.size()] * apart] = true;
    }
    return true;
  }

  const double largest_, allowed_;
  const bool open_;  // elements of the whole that are no numbers may be anything
  double worst_ = 0;
};

// Parts of a value against the whole one.
class Explainer : private Matcher {
 public:
  using Matcher::Matcher;

  Explained explain(const std::vector<PointPart>& parts, const Ranks& ranks,
                    const std::vector<RankGroups>& groups) {
    const bool elements = known(whole_) && std::ranges::all_of(parts, known);
    return elements ? by_elements(parts, ranks, groups) : by_prints(parts, ranks, groups);
  }

  /// The factor of each part; empty: some part is no multiple.
  std::vector<double> factors(const std::vector<PointPart>& parts) {
    std::vector<double> all;
    for (const PointPart& part : parts) {
      if (!may_be_box(part)) return {};
      const bool found = any_box(part, [&](const Dims& offset) {
        const double factor = factor_at(part, offset);
        const bool is = factor != 0 && is_at(part, offset, factor);
        if (is) all.push_back(factor);
        return is;
      });
      if (!found) return {};
    }
    return all;
  }

  /// The first element of the whole that no part has; none: parts make the whole, or are no parts.
  std::optional<Dims> missing(const std::vector<PointPart>& parts) {
    std::vector<bool> there(whole_.elements.size(), false);
    for (const PointPart& part : parts) {
      if (!may_be_box(part)) return std::nullopt;
      bool box = false;
      any_box(part, [&](const Dims& offset) {
        const bool here = is_at(part, offset, 1);
        if (here) for_each_index(part, offset, [&](std::size_t at) { return there[at] = true; });
        box = box || here;
        return false;
      });
      if (!box && !is_padded(part, 1, &there)) has_lines(part, 1, &there);
    }
    const auto first = std::ranges::find(there, false);
    if (first == there.end()) return std::nullopt;
    return index_of(first - there.begin(), whole_.shape);
  }

 private:
  static bool known(const PointPart& part) {
    return std::ranges::find(part.shape, 0) != part.shape.end() || !part.elements.empty();
  }
  bool may_be_box(const PointPart& part) const {
    return part.shape.size() == whole_.shape.size() && fits(part) && known(part);
  }

  Explained result(ValueHeld held, double factor = 1, const RankGroups* groups = nullptr) const {
    return {held, worst_, factor, groups != nullptr ? *groups : RankGroups{}};
  }

  Explained by_elements(const std::vector<PointPart>& parts, const Ranks& ranks,
                        const std::vector<RankGroups>& groups) {
    const auto all_parts = [&](double factor) {
      worst_ = 0;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!is_part(parts[i], factor) && !is_padding(parts, i)) return false;
      }
      return true;
    };
    if (!std::ranges::all_of(parts, [&](const PointPart& one) { return fits(one); })) {
      return result(ValueHeld::kUnknown);
    }
    if (all_parts(1)) return result(ValueHeld::kRight);
    for (const RankGroups& one : groups) {
      for (const Together how : {Together::kSum, Together::kAverage, Together::kLargest}) {
        if (!makes_whole(parts, ranks, one, how)) continue;
        const bool average = how == Together::kAverage;
        const double factor = average ? 1.0 / static_cast<double>(one.groups[0].size()) : 1;
        Explained found = result(ValueHeld::kTerms, factor, &one);
        found.largest = how == Together::kLargest;
        return found;
      }
    }
    std::set<double> factors = {2, 0.5, -1};
    for (const RankGroups& one : groups) {
      const auto size = static_cast<double>(one.groups[0].size());
      factors.insert({size, 1 / size});
    }
    const PointPart& first = parts.front();
    const bool several = whole_.elements.size() > 1;  // any number is a multiple of one number
    if (several && first.shape.size() == whole_.shape.size()) {
      any_box(first, [&](const Dims& offset) {
        const double factor = factor_at(first, offset);
        if (factor != 0) factors.insert(factor);
        return false;
      });
    }
    const bool matters = largest_ > 8 * allowed_;
    for (const double factor : factors) {
      if (matters && all_parts(factor)) return result(ValueHeld::kScaled, factor);
    }
    const bool cut = std::ranges::any_of(
        parts, [&](const PointPart& one) { return one.shape.size() != whole_.shape.size(); });
    return result(cut ? ValueHeld::kUnknown : ValueHeld::kWrong);
  }

  enum class Together { kSum, kAverage, kLargest };

  bool makes_whole(const std::vector<PointPart>& parts, const Ranks& ranks,
                   const RankGroups& groups, Together how) {
    worst_ = 0;
    // A rank outside of these groups has to be right by itself.
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const bool inside = std::ranges::any_of(groups.groups, [&](const Ranks& group) {
        return std::ranges::find(group, ranks[i]) != group.end();
      });
      if (!inside && !is_part(parts[i], 1)) return false;
    }
    for (const Ranks& group : groups.groups) {
      auto sum = reduced_over(group, parts, ranks, how == Together::kLargest);
      if (!sum) return false;
      if (how == Together::kAverage) {
        for (double& element : sum->elements) element /= static_cast<double>(group.size());
      }
      // The largest of elements is always one of them.
      if (!is_part(*sum, 1, how != Together::kLargest)) return false;
    }
    return true;
  }

  // Parts of these groups by the sums of their prints; none: nothing known.
  template <typename Is>
  std::optional<Explained> sums_over(const std::vector<PointPart>& parts, const Ranks& ranks,
                                     const RankGroups& groups, const Is& is) {
    const Fingerprint& whole = whole_.print;
    bool pieces = true, terms = true, average = true, scaled = groups.groups.size() == 1;
    double factor = 0;
    const double share = 1.0 / static_cast<double>(groups.groups[0].size());
    for (const Ranks& group : groups.groups) {
      Fingerprint sum;
      bool whole_shape = true;
      for (const std::size_t rank : group) {
        const auto at = std::ranges::find(ranks, rank);
        if (at == ranks.end()) return result(ValueHeld::kUnknown);
        const PointPart& part = parts.at(static_cast<std::size_t>(at - ranks.begin()));
        whole_shape = whole_shape && part.shape == whole_.shape;
        for (const std::size_t i : {0, 1}) {
          sum.sums[i] += part.print.sums[i];
          sum.sizes[i] += part.print.sizes[i];
        }
      }
      pieces = pieces && !whole_shape && is(sum, 1, true, false);
      if (factor == 0 && whole.sizes[0] > 0) factor = sum.sizes[0] / whole.sizes[0];
      scaled = scaled && !whole_shape && factor > 0 && is(sum, factor, true, false);
      terms = terms && whole_shape && is(sum, 1, false, true);
      for (double& one_sum : sum.sums) one_sum *= share;
      average = average && whole_shape && is(sum, 1, false, true);
    }
    if (pieces) return result(ValueHeld::kRight);
    if (terms) return result(ValueHeld::kTerms, 1, &groups);
    if (average) return result(ValueHeld::kTerms, share, &groups);
    if (scaled) return result(ValueHeld::kScaled, factor);
    return std::nullopt;
  }

  // The sums of elements and of magnitudes: those of pieces add up to those of the whole, those of
  // terms without the magnitudes.
  Explained by_prints(const std::vector<PointPart>& parts, const Ranks& ranks,
                      const std::vector<RankGroups>& groups) {
    const Fingerprint& whole = whole_.print;
    const double relative = largest_ > 0 ? allowed_ / largest_ : allowed_;
    const auto same = [&](double got, double expected, double size) {
      if (!std::isfinite(got) || !std::isfinite(expected))
        return !std::isfinite(got) == !std::isfinite(expected);
      const double off = std::fabs(got - expected);
      if (off > relative * size) return false;
      worst_ = std::max(worst_, size > 0 ? off / size : 0.0);
      return true;
    };
    const auto is = [&](const Fingerprint& print, double factor, bool sizes, bool weights) {
      const double size = std::fabs(factor);
      for (const std::size_t i : {0, 1}) {
        if (i == 1 && !weights) break;
        if (!same(print.sums[i], factor * whole.sums[i], size * whole.sizes[i])) return false;
        if (sizes && !same(print.sizes[i], size * whole.sizes[i], size * whole.sizes[i]))
          return false;
      }
      return true;
    };
    const auto all = [&](double factor) {
      worst_ = 0;
      return std::ranges::all_of(parts, [&](const PointPart& one) {
        return one.shape == whole_.shape && is(one.print, factor, true, true);
      });
    };
    if (all(1)) return result(ValueHeld::kRight);
    for (const RankGroups& one : groups) {
      const auto found = sums_over(parts, ranks, one, is);
      if (found) return *found;
    }
    if (whole.sizes[0] > 0) {
      const double factor = std::copysign(parts[0].print.sizes[0] / whole.sizes[0],
                                          parts[0].print.sums[0] * whole.sums[0]);
      const bool several = product(whole_.shape) > 1;
      if (several && factor != 0 && std::isfinite(factor) && all(factor)) {
        return result(ValueHeld::kScaled, factor);
      }
    }
    // Pieces of pieces: their sizes say nothing.
    const bool cut =
        std::ranges::any_of(parts, [&](const PointPart& one) { return one.shape != whole_.shape; });
    return result(cut && groups.size() > 1 ? ValueHeld::kUnknown : ValueHeld::kWrong);
  }
};

// The groups, with that of all ranks that have the value if it is none of them: then in `room`.
const std::vector<RankGroups>& with_group_of(const Ranks& ranks,
                                             const std::vector<RankGroups>& groups,
                                             std::vector<RankGroups>& room) {
  const bool known = ranks.size() < 2 || std::ranges::any_of(groups, [&](const RankGroups& one) {
                       return one.groups.size() == 1 && one.groups[0] == ranks;
                     });
  if (known) return groups;
  room = groups;
  room.push_back({.name = ranks_text(ranks), .groups = {ranks}, .of_value = true});
  return room;
}

}  // namespace

double rounding_of(DType dtype) {
  constexpr double kMost = 2e-4;
  return rounding_of_kernels(dtype, kMost);
}

double rounding_allowed(const PointPart& whole) {
  return rounding_of(whole.dtype) * largest_finite(whole.elements);
}

bool are_equal(const std::vector<PointPart>& parts) {
  return std::ranges::all_of(parts, [&](const PointPart& one) {
    return one.elements == parts[0].elements && one.shape == parts[0].shape;
  });
}

bool are_equal_in(const RankGroups& groups, const std::vector<PointPart>& all, const Ranks& ranks) {
  const auto is_one = [&](const Ranks& group) {
    std::vector<PointPart> parts;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if (std::ranges::count(group, ranks[i]) > 0) parts.push_back(all[i]);
    return parts.size() > 1 && are_equal(parts);
  };
  return !groups.groups.empty() && std::ranges::all_of(groups.groups, is_one);
}

bool is_same_factor(double factor, double other) {
  return std::fabs(factor - other) <= kSameFactor * std::fabs(factor);
}

std::vector<double> factors_of_parts(const PointPart& whole, double allowed,
                                     const std::vector<PointPart>& parts) {
  return Explainer(whole, allowed, false).factors(parts);
}

std::optional<PointPart> reduced_over(const Ranks& group, const std::vector<PointPart>& parts,
                                      const Ranks& ranks, bool largest) {
  std::optional<PointPart> sum;
  for (const std::size_t rank : group) {
    const auto at = std::ranges::find(ranks, rank);
    if (at == ranks.end() || parts.size() != ranks.size()) return std::nullopt;
    const PointPart& part = parts[static_cast<std::size_t>(at - ranks.begin())];
    if (!sum) {
      sum = part;
      continue;
    }
    if (part.shape != sum->shape) return std::nullopt;
    for (std::size_t i = 0; i < part.elements.size(); ++i) {
      double& element = sum->elements[i];
      element = largest ? std::max(element, part.elements[i]) : element + part.elements[i];
    }
  }
  return sum;
}

std::optional<Dims> missing_element(const PointPart& whole, double allowed,
                                    const std::vector<PointPart>& parts) {
  return Explainer(whole, allowed, false).missing(parts);
}

Explained explain(const PointPart& whole, double allowed, const std::vector<PointPart>& parts,
                  const Ranks& ranks, const std::vector<RankGroups>& groups, bool open) {
  std::vector<RankGroups> room;
  return Explainer(whole, allowed, open).explain(parts, ranks, with_group_of(ranks, groups, room));
}

double factor_of_sum(const PointPart& whole, double allowed, const std::vector<PointPart>& parts,
                     const Ranks& ranks, const std::vector<RankGroups>& groups) {
  constexpr std::size_t kFewest = 4;  // less elements are a multiple by chance
  if (whole.elements.size() < kFewest) return 1;
  std::vector<RankGroups> room;
  for (const RankGroups& one : with_group_of(ranks, groups, room)) {
    std::vector<PointPart> sums;
    for (const Ranks& group : one.groups) {
      auto sum = reduced_over(group, parts, ranks);
      if (sum) sums.push_back(std::move(*sum));
    }
    if (sums.size() * one.groups[0].size() != ranks.size()) continue;
    const std::vector<double> factors = factors_of_parts(whole, allowed, sums);
    const auto is_first = [&](double factor) { return is_same_factor(factor, factors[0]); };
    if (!factors.empty() && std::ranges::all_of(factors, is_first)) return factors[0];
  }
  return 1;
}

std::optional<Explained> nearer_terms(const PointPart& whole, double error,
                                      const std::vector<PointPart>& parts, const Ranks& ranks,
                                      const std::vector<RankGroups>& groups) {
  constexpr double kNearer = 4;       // than noise gets by averaging
  constexpr std::size_t kFewest = 4;  // of fewer elements, errors may cancel by chance
  if (whole.elements.size() < kFewest) return std::nullopt;
  const double noise = error / std::sqrt(static_cast<double>(parts.size()));
  Explained found = explain(whole, noise / kNearer, parts, ranks, groups);
  const bool terms = found.held == ValueHeld::kTerms && !found.largest;
  return terms ? std::optional(std::move(found)) : std::nullopt;
}

bool is_rearranged(const std::vector<PointPart>& parts, const PointPart& whole) {
  std::vector<double> expected = whole.elements;
  std::ranges::sort(expected);
  const double allowed = rounding_allowed(whole);
  const auto has_all = [&](std::vector<double> elements) {
    std::ranges::sort(elements);
    return std::ranges::equal(elements, expected, [&](double own, double other) {
      return std::fabs(own - other) <= allowed;
    });
  };
  if (expected.size() < 2) return false;
  if (std::ranges::all_of(parts, has_all, &PointPart::elements)) return true;
  std::vector<double> together;
  for (const PointPart& part : parts) {
    together.insert(together.end(), part.elements.begin(), part.elements.end());
  }
  return has_all(together);
}

}  // namespace shardlab
