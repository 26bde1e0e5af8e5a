#include "tests/property/strict.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mesh/type_string.h"

namespace shardlab::test {
namespace {

/// The sum of the roundings in a sample's sums: twenty of a number around 30 in f32; in bf16 sums
/// are kept in f32 and rounded once or twice. Terms that cancel leave a small sum with the error of
/// its large terms, so it is not relative to the result.
double room_of(DType dtype) { return dtype == DType::kBF16 ? 0.06 : 4e-5; }

double roundoff(DType dtype) { return dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24; }

bool same_bits(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// The allowed distance of a value from the reference: the sum of roundings, and, if the op makes
/// more of them, four times the error of one device.
double room_for(const GlobalValue& single, const GlobalValue& reference) {
  double largest = 0, own = 0;
  for (std::size_t i = 0; i < reference.reals.size(); ++i) {
    const double exact = reference.reals[i];
    if (!std::isfinite(exact) || !std::isfinite(single.reals[i])) continue;
    largest = std::max(largest, std::fabs(exact));
    own = std::max(own, std::fabs(single.reals[i] - exact));
  }
  const DType dtype = single.meta.dtype;
  return std::max({room_of(dtype), 16 * roundoff(dtype) * largest, 4 * own});
}

}  // namespace

std::string strict_difference(const GlobalValue& got, const GlobalValue& single,
                              const GlobalValue& reference, bool exact) {
  if (got.meta.shape != single.meta.shape || got.meta.dtype != single.meta.dtype) {
    return fmt::format("is {}, the single-device run has {}", type_string(got.meta),
                       type_string(single.meta));
  }
  for (std::size_t i = 0; i < got.integers.size(); ++i) {
    if (got.integers[i] == single.integers[i]) continue;
    return fmt::format("element {} is {}, the single-device run has {}", i, got.integers[i],
                       single.integers[i]);
  }
  // If roundings decide the number of elements, f64 may have another number of them.
  const GlobalValue& truth = reference.reals.size() == single.reals.size() ? reference : single;
  const double room = room_for(single, truth);
  for (std::size_t i = 0; i < got.reals.size(); ++i) {
    const double value = got.reals[i], alone = single.reals[i];
    if (same_bits(value, alone)) continue;
    if (exact) return fmt::format("element {} is {}, bitwise one device has {}", i, value, alone);
    const double error = std::fabs(value - truth.reals[i]);
    if (!(error <= room)) {
      return fmt::format("element {} is {}, expected {} within {}", i, value, truth.reals[i], room);
    }
  }
  return {};
}

}  // namespace shardlab::test
