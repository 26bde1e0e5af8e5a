#include "tests/property/recorded_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"

namespace shardlab::test {

namespace {

using Same = bool (*)(const GlobalValue&, const GlobalValue&);

bool same_bits(const GlobalValue& a, const GlobalValue& b) {
  if (a.meta != b.meta || a.integers != b.integers || a.reals.size() != b.reals.size()) {
    return false;
  }
  return a.reals.empty() ||
         std::memcmp(a.reals.data(), b.reals.data(), a.reals.size() * sizeof(double)) == 0;
}

bool same_numbers(const GlobalValue& a, const GlobalValue& b) {
  if (a.meta != b.meta || a.integers != b.integers) return false;
  double largest = 0;
  for (const double value : a.reals) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  const double allowed = 64 * unit_roundoff(a.meta.dtype) * largest;
  return std::equal(a.reals.begin(), a.reals.end(), b.reals.begin(), b.reals.end(),
                    [allowed](double x, double y) {
                      if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
                      return x == y || std::fabs(x - y) <= allowed;
                    });
}

std::set<std::string> different(const RecordedNumbers& a, const RecordedNumbers& b, Same same) {
  std::set<std::string> keys;
  for (std::size_t rank = 0; rank < a.size(); ++rank) {
    for (const auto& [key, value] : a[rank]) {
      const auto other = b[rank].find(key);
      if (other == b[rank].end() || !same(value, other->second)) keys.insert(key);
    }
    for (const auto& [key, value] : b[rank]) {
      if (!a[rank].contains(key)) keys.insert(key);
    }
  }
  return keys;
}

}  // namespace

RecordedNumbers numbers_of(const std::vector<Recording>& ranks) {
  RecordedNumbers numbers;
  for (const Recording& rank : ranks) {
    auto& held = numbers.emplace_back();
    for (const RecordedValue& value : rank.values()) {
      if (value.value.local().defined()) held[value.key()] = whole_value(value.value.local());
    }
  }
  return numbers;
}

std::set<std::string> different_bits(const RecordedNumbers& a, const RecordedNumbers& b) {
  return different(a, b, same_bits);
}

std::set<std::string> different_numbers(const RecordedNumbers& a, const RecordedNumbers& b) {
  return different(a, b, same_numbers);
}

}  // namespace shardlab::test
