#include "sim/verify/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mesh/type_string.h"

namespace shardlab {

std::string_view to_string(Agreement agreement) {
  switch (agreement) {
    case Agreement::kBitwise:
      return "bitwise";
    case Agreement::kEnvelope:
      return "envelope";
    case Agreement::kTolerance:
      return "tolerance";
    case Agreement::kUndecided:
      return "undecided";
    case Agreement::kWrong:
      return "wrong";
  }
  return "?";
}

namespace {

Comparison wrong(std::string what) {
  Comparison result;
  result.agreement = Agreement::kWrong;
  result.what = std::move(what);
  return result;
}

// One number a bit pattern: distinguishes -0.0 from 0.0; any NaN equals any NaN.
bool same_number(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

std::int64_t element_of(const GlobalValue& value, std::size_t number) {
  const std::size_t width = is_complex(value.meta.dtype) ? 2 : 1;
  return static_cast<std::int64_t>(number / width);
}

Comparison compare_integers(const GlobalValue& sharded, const GlobalValue& single, bool exact) {
  for (std::size_t i = 0; i < sharded.integers.size(); ++i) {
    if (sharded.integers[i] == single.integers[i]) continue;
    Comparison result = wrong(fmt::format("element {} is {}, one device has {}", i,
                                          sharded.integers[i], single.integers[i]));
    if (!exact) result.agreement = Agreement::kUndecided;
    result.worst_index = static_cast<std::int64_t>(i);
    result.got = static_cast<double>(sharded.integers[i]);
    result.expected = static_cast<double>(single.integers[i]);
    result.error = std::fabs(result.got - result.expected);
    return result;
  }
  return {};
}

Comparison compare_bits(const GlobalValue& sharded, const GlobalValue& single) {
  for (std::size_t i = 0; i < sharded.reals.size(); ++i) {
    if (same_number(sharded.reals[i], single.reals[i])) continue;
    Comparison result = wrong(
        fmt::format("element {} is {:.9g}, one device has {:.9g}; this value must agree bitwise",
                    element_of(sharded, i), sharded.reals[i], single.reals[i]));
    result.worst_index = element_of(sharded, i);
    result.got = sharded.reals[i];
    result.expected = single.reals[i];
    result.error = std::fabs(result.got - result.expected);
    return result;
  }
  return {};
}

// The largest distance between finite numbers; -1 and the place where NaN or inf positions
// disagree.
struct Distance {
  double largest = 0;
  std::size_t at = 0;
  bool kinds_agree = true;
};
Distance distance(const std::vector<double>& a, const std::vector<double>& b) {
  Distance result;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::isinf(a[i]) && a[i] == b[i]) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return {0, i, false};
    const double d = std::fabs(a[i] - b[i]);
    if (d > result.largest) result = {d, i, true};
  }
  return result;
}

double largest_finite(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

Comparison compare_envelope(const GlobalValue& sharded, const GlobalValue& single,
                            const GlobalValue& reference, const Judgement& judgement) {
  const Distance off = distance(sharded.reals, reference.reals);
  Comparison result;
  result.agreement = Agreement::kEnvelope;
  if (!sharded.reals.empty()) {
    result.worst_index = element_of(sharded, off.at);
    result.got = sharded.reals[off.at];
    result.expected = reference.reals[off.at];
  }
  if (!off.kinds_agree) {
    // An overflow of the narrow dtype that one device shows too is not sharding's doing.
    if (same_number(sharded.reals[off.at], single.reals[off.at])) return result;
    result.agreement = Agreement::kWrong;
    result.what = fmt::format("element {} is {:.9g}, expected {:.9g}", result.worst_index,
                              result.got, result.expected);
    return result;
  }
  const double e1 = distance(single.reals, reference.reals).largest;
  const double scale = largest_finite(reference.reals);
  result.error = off.largest;
  result.allowed = 4 * e1 + 16 * unit_roundoff(sharded.meta.dtype) * scale;
  if (result.error <= result.allowed) return result;
  if (judgement.relative_tolerance && result.error <= *judgement.relative_tolerance * scale) {
    result.agreement = Agreement::kTolerance;
    result.allowed = *judgement.relative_tolerance * scale;
    return result;
  }
  result.agreement = Agreement::kWrong;
  result.what =
      fmt::format("element {} is {:.9g}, expected {:.9g}: off by {:.3g}, allowed {:.3g}",
                  result.worst_index, result.got, result.expected, result.error, result.allowed);
  return result;
}

}  // namespace

Comparison compare(const GlobalValue& sharded, const GlobalValue& single,
                   const GlobalValue& reference, const Judgement& judgement) {
  if (sharded.meta.shape != single.meta.shape || sharded.meta.dtype != single.meta.dtype) {
    return wrong(fmt::format("is {}, one device has {}", type_string(sharded.meta),
                             type_string(single.meta)));
  }
  if (sharded.is_integral()) return compare_integers(sharded, single, judgement.exact);
  if (judgement.exact) return compare_bits(sharded, single);
  return compare_envelope(sharded, single, reference, judgement);
}

}  // namespace shardlab
