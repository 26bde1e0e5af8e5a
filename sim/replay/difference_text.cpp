// A difference is told by its largest element, and by factors if there are few of them.
#include "sim/replay/difference_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "sim/verify/compare.h"
#include "sim/verify/held_numbers.h"

namespace shardlab {

namespace {

constexpr std::size_t kMostFactors = 8;  // told in one line

// How many times A's row each row is; empty: one is no multiple.
std::vector<double> factors_of_rows(const PointPart& whole, double allowed, const PointPart& part) {
  std::vector<double> factors;
  if (whole.shape.empty() || whole.shape[0] == 0) return factors;
  const std::size_t length = whole.elements.size() / static_cast<std::size_t>(whole.shape[0]);
  const auto row_of = [&](const PointPart& all, std::size_t at) {
    PointPart row{.shape = all.shape, .dtype = all.dtype, .elements = {}};
    row.shape[0] = 1;
    const auto begin = all.elements.begin() + static_cast<std::ptrdiff_t>(at * length);
    row.elements.assign(begin, begin + static_cast<std::ptrdiff_t>(length));
    return row;
  };
  for (std::size_t at = 0; at < static_cast<std::size_t>(whole.shape[0]); ++at) {
    const PointPart row = row_of(whole, at), own = row_of(part, at);
    if (largest_finite(row.elements) <= allowed && largest_finite(own.elements) <= allowed)
      continue;
    const std::vector<double> one = factors_of_parts(row, allowed, {own});
    if (one.empty()) return {};
    factors.push_back(one[0]);
  }
  return factors;
}

PointPart change_of(const PointPart& now, const PointPart& before) {
  PointPart part = now;
  if (now.elements.size() != before.elements.size()) part.elements.clear();
  for (std::size_t i = 0; i < part.elements.size(); ++i) part.elements[i] -= before.elements[i];
  return part;
}

}  // namespace

std::string number_text(double value) { return fmt::format("{:.6g}", value); }

bool has_one_size(const PointPart& part, const PointPart& whole) {
  return part.elements.size() == whole.elements.size() && !part.elements.empty();
}

// Elements of two parts of one size that are further apart than rounding.
std::size_t differing(const PointPart& part, const PointPart& whole) {
  const double allowed = rounding_of(part.dtype) * largest_finite(whole.elements);
  std::size_t count = 0;
  for (std::size_t i = 0; i < part.elements.size(); ++i) {
    if (!(std::fabs(part.elements[i] - whole.elements[i]) <= allowed)) ++count;
  }
  return count;
}

std::string elements_text(const PointPart& part, const PointPart& whole) {
  if (!has_one_size(part, whole)) return "no part of A's value, nor a term of it";
  std::size_t at = 0;
  double most = -1;
  for (std::size_t i = 0; i < part.elements.size(); ++i) {
    const double off = std::fabs(part.elements[i] - whole.elements[i]);
    if (off > most || std::isnan(off)) {
      most = off;
      at = i;
    }
  }
  const Dims index = index_of(static_cast<std::int64_t>(at), part.shape);
  return fmt::format("{} of {} elements differ; at [{}] it is {}, and A has {}",
                     differing(part, whole), part.elements.size(), text_of_list(index, ", "),
                     number_text(part.elements[at]), number_text(whole.elements[at]));
}

// How many times A's the parts are, or the rows of the only one, each once; empty: no multiples.
static std::vector<std::string> factors_of(const std::vector<PointPart>& parts, const PointPart& a,
                                           double allowed) {
  std::vector<double> factors;
  if (parts.size() > 1) {
    factors = factors_of_parts(a, allowed, parts);
  } else if (has_one_size(parts[0], a)) {
    factors = factors_of_rows(a, allowed, parts[0]);
  }
  std::vector<std::string> texts;
  for (const double factor : factors) {
    std::string text = fmt::format("{:.3g}", factor);
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
  }
  return texts;
}

// A factor that each rank has computed for itself, as a mean over its own count.
std::string factors_text(const std::vector<PointPart>& parts, const PointPart& a,
                         std::string_view what, double allowed) {
  const std::vector<std::string> texts = factors_of(parts, a, allowed);
  if (texts.size() < 2 || texts.size() > kMostFactors) return "";
  return fmt::format("; {} are {} times A's: a factor of each rank's own", what,
                     text_of_list(texts, ", "));
}

// A step that the others have not heard of.
std::string right_ranks_text(const std::vector<PointPart>& parts,
                             const std::vector<std::size_t>& ranks, const PointPart& whole) {
  std::vector<std::size_t> right;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (has_one_size(parts[i], whole) && differing(parts[i], whole) == 0) right.push_back(ranks[i]);
  }
  if (right.empty() || right.size() == parts.size()) return "";
  return fmt::format("; {} {} A's", ranks_text(right), right.size() == 1 ? "has" : "have");
}

// Ranks along a mesh dim over which nothing makes them equal.
std::string replicas_text(const std::vector<PointPart>& parts,
                          const std::vector<std::size_t>& ranks, const PointPart& whole) {
  std::vector<std::vector<std::size_t>> classes;  // places in `parts`
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!has_one_size(parts[i], whole)) return "";
    const auto own = std::ranges::find_if(classes, [&](const std::vector<std::size_t>& one) {
      return differing(parts[i], parts[one[0]]) == 0;
    });
    if (own == classes.end()) {
      classes.push_back({i});
    } else {
      own->push_back(i);
    }
  }
  if (classes.size() < 2 || classes.size() == parts.size()) return "";
  std::vector<std::string> texts;
  for (const std::vector<std::size_t>& one : classes) {
    std::vector<std::size_t> of_class;
    for (const std::size_t i : one) of_class.push_back(ranks[i]);
    texts.push_back((texts.empty() ? "one value on " : "another on ") + ranks_text(of_class));
    if (texts.size() == kMostFactors) break;
  }
  return "it is " + text_of_list(texts, ", ");
}

// Replicas make one step, however coarse the gradients are.
std::string parting_text(const std::vector<PointPart>& ends, const std::vector<PointPart>& begins) {
  constexpr double kShare = 0.02;  // of the largest change
  if (ends.size() < 2 || ends.size() != begins.size()) return "";
  const PointPart first = change_of(ends[0], begins[0]);
  const double largest = largest_finite(first.elements);
  double most = 0;
  for (std::size_t i = 1; i < ends.size(); ++i) {
    const PointPart own = change_of(ends[i], begins[i]);
    if (begins[i].elements != begins[0].elements || !has_one_size(own, first)) return "";
    for (std::size_t at = 0; at < own.elements.size(); ++at) {
      most = std::max(most, std::fabs(own.elements[at] - first.elements[at]));
    }
  }
  if (largest == 0 || most <= kShare * largest) return "";
  return fmt::format(
      "equal on all ranks before the step, and not behind it: changes differ by up "
      "to {:.2g} of the largest",
      most / largest);
}

// Steps that differ by a factor, as by a rate of each rank, and ranks that make none.
std::string changes_text(const std::vector<PointPart>& ends, const std::vector<PointPart>& begins,
                         const std::vector<std::size_t>& ranks, const PointPart& end,
                         const PointPart& begin) {
  if (ends.empty() || ends.size() != begins.size()) return "";
  const PointPart whole = change_of(end, begin);
  if (largest_finite(whole.elements) == 0) return "";
  std::vector<PointPart> all;
  std::vector<std::size_t> unchanged;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    all.push_back(change_of(ends[i], begins[i]));
    const bool same = ends[i].elements == begins[i].elements;
    if (same && !ends[i].elements.empty()) unchanged.push_back(ranks[i]);
  }
  if (!unchanged.empty()) {
    return fmt::format("; {} {} it as it was before the step", ranks_text(unchanged),
                       unchanged.size() == 1 ? "has" : "have");
  }
  const double allowed = rounding_allowed(end);
  const std::string own = factors_text(all, whole, "its changes", allowed);
  if (!own.empty()) return own;
  const std::vector<std::string> texts = factors_of(all, whole, allowed);
  return texts.size() == 1 ? "; its change is " + texts[0] + " times A's" : "";
}

std::string text_of_factor(const Explained& all) {
  return all.factor == 1
             ? ""
             : fmt::format("; their sum is {} times A's value", number_text(all.factor));
}

std::string text_of_cause(const Explained& all) {
  if (all.held == ValueHeld::kScaled) return number_text(all.factor) + " times A's value";
  if (all.largest) {
    return fmt::format("each rank's own: the largest over {} is A's value", all.groups.name);
  }
  return fmt::format("a term on each rank: their {} over {} is A's value",
                     all.factor == 1 ? "sum" : "average", all.groups.name);
}

}  // namespace shardlab
