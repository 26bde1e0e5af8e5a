// packet_parts.h - functions of sizes by a polynomial in each of eight parts of equal length, whose
// coefficients are looked up: few terms, and no division.
#pragma once

#include <iterator>

#include "kernels/packet_lookup.h"

namespace shardlab {

/// |x|, at most `end`; of NaN some number up to it, or NaN.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> size_within(const PacketOf<T>& x, T end) {
  using namespace Eigen::internal;
  const PacketOf<T> most = pset1<PacketOf<T>>(end);
  return pmin(pabs(x), most);
}

/// A function of |x| at most 7.49 parts; of NaN anything. `Parts` has the length of a part and
/// coefficients: c[0] h^n + ... + c[n] around the middle k * kLength of part k, h = |x| - k *
/// kLength, those of each part in a column. Without a constant in part 0 small results keep their
/// digits.
template <typename Parts, typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_by_parts(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  constexpr auto& kTable = Parts::kCoefficients;
  constexpr std::size_t kTerms = std::size(kTable);
  constexpr T kEnd = T(7.49) * Parts::kLength;  // in the last part for sure
  const Packet shift = pset1<Packet>(kWholeShift<T>), size = size_within(x, kEnd);
  const Packet shifted = pmadd(size, pset1<Packet>(1 / Parts::kLength), shift);
  const auto part = std::bit_cast<BitsOf<T>>(shifted);
  const Packet h = pmadd(psub(shifted, shift), pset1<Packet>(-Parts::kLength), size);
  Packet sum = looked_up(kTable[0], part);
#pragma GCC unroll 16
  for (std::size_t term = 1; term < kTerms; ++term) {
    sum = pmadd(sum, h, looked_up(kTable[term], part));
  }
  return sum;
}

}  // namespace shardlab
