// The first elements, the largest magnitude and a hash over all elements, all NaNs counting as one.
// Two runs whose hashes differ have different values, also in elements that are not kept.
#include "sim/verify/kept_value.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace shardlab {

namespace {

// FNV-1a over 64-bit words: written down in scenarios/README.md, so that others can make it, too.
class Fnv {
 public:
  void add(std::uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) {
      hash_ = (hash_ ^ (word >> (8 * byte) & 0xFF)) * 0x100000001B3ull;
    }
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325ull;
};

std::uint64_t bits_of(double value) {
  constexpr std::uint64_t kQuietNan = 0x7FF8000000000000ull;
  return std::isnan(value) ? kQuietNan : std::bit_cast<std::uint64_t>(value);
}

}  // namespace

KeptValue keep_value(const GlobalValue& whole, std::int64_t rank, std::int64_t most) {
  KeptValue kept;
  kept.rank = rank;
  kept.first.meta = whole.meta;
  const std::size_t width = is_complex(whole.meta.dtype) ? 2 : 1;
  kept.count = static_cast<std::int64_t>(whole.is_integral() ? whole.integers.size()
                                                             : whole.reals.size() / width);
  const auto elements = static_cast<std::size_t>(std::min(kept.count, most));
  Fnv hash;
  for (const double number : whole.reals) {
    hash.add(bits_of(number));
    if (std::isfinite(number)) kept.largest = std::max(kept.largest, std::fabs(number));
  }
  for (const std::int64_t number : whole.integers) {
    hash.add(static_cast<std::uint64_t>(number));
    kept.largest = std::max(kept.largest, std::fabs(static_cast<double>(number)));
  }
  kept.hash = hash.value();
  const auto begins_with = [](const auto& numbers, std::size_t size) {
    return std::decay_t<decltype(numbers)>(numbers.begin(),
                                           numbers.begin() + static_cast<std::ptrdiff_t>(size));
  };
  if (whole.is_integral()) {
    kept.first.integers = begins_with(whole.integers, elements);
  } else {
    kept.first.reals = begins_with(whole.reals, elements * width);
  }
  return kept;
}

}  // namespace shardlab
