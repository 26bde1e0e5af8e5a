// Each element is judged by itself: an overflow, a NaN or a flipped decision in one of them does
// not matter for the others.
#include "sim/verify/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "mesh/type_string.h"
#include "sim/verify/extent.h"

namespace shardlab {

bool same_bits_or_nan(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

std::string_view to_string(Agreement agreement) {
  constexpr std::string_view kNames[] = {"bitwise",  "envelope",  "tolerance",
                                         "rounding", "undecided", "wrong"};
  return kNames[static_cast<std::size_t>(agreement)];
}

namespace {

Comparison wrong(std::string what) {
  Comparison result;
  result.agreement = Agreement::kWrong;
  result.what = std::move(what);
  return result;
}

std::size_t width_of(const GlobalValue& value) { return is_complex(value.meta.dtype) ? 2 : 1; }

std::int64_t element_of(const GlobalValue& value, std::size_t number) {
  return static_cast<std::int64_t>(number / width_of(value));
}

// Infinite if one is a NaN or an infinity and the other is not the same.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  return std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) : INFINITY;
}

void count(Comparison& result, std::int64_t at) {
  ++result.differing;
  std::vector<std::int64_t>& marked = result.differing_at;
  const bool other_half = !marked.empty() && marked.back() == at;  // of a complex number
  if (marked.size() < kMostMarked && !other_half) marked.push_back(at);
}

// Notes element `at` as the worst one.
void note(Comparison& result, std::int64_t at, double got, double expected, double error) {
  result.worst_index = at;
  result.got = got;
  result.expected = expected;
  result.error = error;
}

Comparison compare_integers(const GlobalValue& sharded, const GlobalValue& single,
                            Agreement otherwise) {
  Comparison result;
  for (std::size_t i = 0; i < sharded.integers.size(); ++i) {
    if (sharded.integers[i] == single.integers[i]) continue;
    count(result, static_cast<std::int64_t>(i));
    if (result.differing > 1) continue;
    const auto got = static_cast<double>(sharded.integers[i]);
    const auto expected = static_cast<double>(single.integers[i]);
    note(result, static_cast<std::int64_t>(i), got, expected, std::fabs(got - expected));
    result.agreement = otherwise;
    result.what = fmt::format("element {} is {}, the single-device run has {}", i,
                              sharded.integers[i], single.integers[i]);
  }
  return result;
}

Comparison compare_bits(const GlobalValue& sharded, const GlobalValue& single) {
  Comparison result;
  for (std::size_t i = 0; i < sharded.reals.size(); ++i) {
    const double got = sharded.reals[i], expected = single.reals[i];
    if (same_bits_or_nan(got, expected)) continue;
    count(result, element_of(sharded, i));
    if (result.differing > 1) continue;
    note(result, element_of(sharded, i), got, expected, distance(got, expected));
    result.agreement = Agreement::kWrong;
    result.what = fmt::format(
        "element {} is {:.9g}, the single-device run has {:.9g}; this value must agree bitwise",
        element_of(sharded, i), got, expected);
  }
  return result;
}

// Between finite numbers alone.
double largest_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = distance(a[i], b[i]);
    if (std::isfinite(d)) largest = std::max(largest, d);
  }
  return largest;
}

std::string off_by(const Comparison& result) {
  if (!std::isfinite(result.error)) {
    return fmt::format("element {} is {:.9g}, expected {:.9g}", result.worst_index, result.got,
                       result.expected);
  }
  return fmt::format("element {} is {:.9g}, expected {:.9g}: off by {:.3g}, allowed {:.3g}",
                     result.worst_index, result.got, result.expected, result.error, result.allowed);
}

// Most values: everything is finite and as close as rounding allows, without a run in f64.
std::optional<Comparison> compare_near(const GlobalValue& sharded, const GlobalValue& single) {
  const Extent all = extent_of(sharded.reals.data(), single.reals.data(), sharded.reals.size());
  Comparison result;
  result.agreement = Agreement::kEnvelope;
  result.allowed = rounding::kRoundings * unit_roundoff(sharded.meta.dtype) * all.size;
  if (!all.finite || all.distance > result.allowed || sharded.reals.empty()) return std::nullopt;
  std::size_t worst = 0;
  while (std::fabs(sharded.reals[worst] - single.reals[worst]) != all.distance) ++worst;
  note(result, element_of(sharded, worst), sharded.reals[worst], single.reals[worst], all.distance);
  if (all.size > 0) {
    result.roundings = result.error / (unit_roundoff(sharded.meta.dtype) * all.size);
  }
  return result;
}

Comparison compare_envelope(const GlobalValue& sharded, const GlobalValue& single,
                            const GlobalValue& reference, const Judgement& judgement) {
  if (&single == &reference) {
    if (const auto near = compare_near(sharded, single)) return *near;
  }
  // If the dtype overflows in the single-device run, its roundings are no measure for other
  // elements.
  double scale = 0;
  for (std::size_t i = 0; i < reference.reals.size(); ++i) {
    const bool holds = std::isfinite(single.reals[i]) && std::isfinite(reference.reals[i]);
    if (holds) scale = std::max(scale, std::fabs(reference.reals[i]));
  }
  const double user = judgement.relative_tolerance ? *judgement.relative_tolerance * scale : 0;
  Comparison result;
  result.agreement = Agreement::kEnvelope;
  result.allowed = rounding::kOwnErrors * largest_distance(single.reals, reference.reals) +
                   rounding::kRoundings * unit_roundoff(sharded.meta.dtype) * scale;
  for (std::size_t i = 0; i < sharded.reals.size(); ++i) {
    // Sharding did not cause an overflow of the narrow dtype that the single-device run shows, too.
    if (!std::isfinite(sharded.reals[i]) && same_bits_or_nan(sharded.reals[i], single.reals[i]))
      continue;
    const double error = distance(sharded.reals[i], reference.reals[i]);
    if (error > std::max(result.allowed, user)) count(result, element_of(sharded, i));
    if (result.worst_index >= 0 && error <= result.error) continue;
    note(result, element_of(sharded, i), sharded.reals[i], reference.reals[i], error);
  }
  if (scale > 0) result.roundings = result.error / (unit_roundoff(sharded.meta.dtype) * scale);
  if (result.error <= result.allowed) return result;
  if (result.error <= user) {
    result.agreement = Agreement::kTolerance;
    result.allowed = user;
    return result;
  }
  result.agreement = Agreement::kWrong;
  result.what = off_by(result);
  return result;
}

// Sizes are compared in f64, too, where a dtype is not the program's.
std::string types_differ(const GlobalValue& value, const GlobalValue& expected) {
  if (value.meta.dtype == expected.meta.dtype && value.meta.dtype == DType::kF64) {
    return fmt::format("is [{}], the single-device run has [{}]",
                       text_of_list(value.meta.shape, ", "),
                       text_of_list(expected.meta.shape, ", "));
  }
  return fmt::format("is {}, the single-device run has {}", type_string(value.meta),
                     type_string(expected.meta));
}

}  // namespace

Comparison compare(const GlobalValue& sharded, const GlobalValue& single,
                   const GlobalValue& reference, const Judgement& judgement) {
  if (sharded.meta.shape != single.meta.shape || sharded.meta.dtype != single.meta.dtype) {
    return wrong(types_differ(sharded, single));
  }
  if (sharded.is_integral()) {
    return compare_integers(sharded, single,
                            judgement.exact ? Agreement::kWrong : Agreement::kUndecided);
  }
  // Bits that were read as another dtype have other sizes in f64, and cannot be compared with them.
  const bool reread = reference.meta.shape != single.meta.shape;
  if (judgement.exact || reread) return compare_bits(sharded, single);
  return compare_envelope(sharded, single, reference, judgement);
}

double largest_finite(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

bool all_close(const std::vector<double>& a, const std::vector<double>& b, double allowed) {
  return std::ranges::equal(a, b, [&](double x, double y) { return distance(x, y) <= allowed; });
}

double taken_as_equal(bool in_f64, DType dtype) {
  return in_f64 ? rounding::kRelativeInF64 : rounding::kEqualRoundings * unit_roundoff(dtype);
}

double farthest(const GlobalValue& a, const GlobalValue& b) {
  if (a.is_integral() || a.reals.size() != b.reals.size()) return 0;
  return largest_distance(a.reals, b.reals);
}

F64Noise f64_noise(const GlobalValue& single, const GlobalValue& reference, double astray,
                   double largest) {
  if (single.is_integral() || single.reals.size() != reference.reals.size()) return {};
  using rounding::kLuck;
  const double own = unit_roundoff(single.meta.dtype), u = unit_roundoff(DType::kF64);
  // A mistake is as large in f64, so errors in the program's own dtype excuse nothing.
  if (u < own) return {.any = kLuck * u / own * std::max(farthest(single, reference), astray)};
  // A program in f64 is its own reference: the scale of its numbers has to be enough, or of large
  // ones that cancel, as in a gradient behind two norms.
  const double cancelled = rounding::kRoundings * u * largest;
  return {.any = std::max(kLuck * u * largest_finite(reference.reals), cancelled),
          .of_zero = kLuck * u * largest};
}

Comparison compare_in_f64(const GlobalValue& sharded, const GlobalValue& reference,
                          F64Noise noise) {
  if (sharded.meta.shape != reference.meta.shape || sharded.meta.dtype != reference.meta.dtype) {
    return wrong(types_differ(sharded, reference));
  }
  if (sharded.is_integral()) return compare_integers(sharded, reference, Agreement::kWrong);
  Comparison result;
  result.agreement = Agreement::kEnvelope;
  const Dims& shape = reference.meta.shape;
  const std::size_t row =
      std::max<std::size_t>(1, shape.empty() ? 1 : static_cast<std::size_t>(shape.back())) *
      width_of(reference);
  double worst_share = 0;
  for (std::size_t begin = 0; begin < reference.reals.size(); begin += row) {
    const auto first = reference.reals.begin() + static_cast<std::ptrdiff_t>(begin);
    const double scale = largest_finite({first, first + static_cast<std::ptrdiff_t>(row)});
    const double of_zero = scale <= noise.of_zero ? noise.of_zero : 0;
    const double allowed = rounding::kRelativeInF64 * scale + noise.any + of_zero;
    for (std::size_t i = begin; i < begin + row; ++i) {
      const double error = distance(sharded.reals[i], reference.reals[i]);
      if (error > allowed) count(result, element_of(sharded, i));
      const double share = allowed > 0 ? error / allowed : error > 0 ? INFINITY : 0;
      if (result.worst_index >= 0 && share <= worst_share) continue;
      worst_share = share;
      note(result, element_of(sharded, i), sharded.reals[i], reference.reals[i], error);
      result.allowed = allowed;
    }
  }
  if (result.differing == 0) return result;
  result.agreement = Agreement::kWrong;
  result.what = off_by(result);
  return result;
}

}  // namespace shardlab
