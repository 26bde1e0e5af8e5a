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

/// Each x becomes the function of |x| at most 7.49 parts, of NaN anything. `Parts` has the length
/// of a part and coefficients: c[0] h^n + ... + c[n] around the middle k * kLength of part k, h =
/// |x| - k * kLength, those of each part in a column. Without a constant in part 0 small results
/// keep their digits. Several packets are computed side by side: each step waits for the one
/// before, and a processor's window is too small to reach the next packets' steps by itself.
template <typename Parts, typename T, std::size_t packets>
EIGEN_ALWAYS_INLINE void packets_by_parts(PacketOf<T> (&x)[packets]) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  constexpr auto& kTable = Parts::kCoefficients;
  constexpr std::size_t kTerms = std::size(kTable);
  constexpr T kEnd = T(7.49) * Parts::kLength;  // in the last part for sure
  const Packet shift = pset1<Packet>(kWholeShift<T>);
  Packet h[packets];
  BitsOf<T> part[packets];
  for (std::size_t i = 0; i < packets; ++i) {
    const Packet size = size_within(x[i], kEnd);
    const Packet shifted = pmadd(size, pset1<Packet>(1 / Parts::kLength), shift);
    part[i] = std::bit_cast<BitsOf<T>>(shifted);
    h[i] = pmadd(psub(shifted, shift), pset1<Packet>(-Parts::kLength), size);
    x[i] = looked_up(kTable[0], part[i]);
  }
#pragma GCC unroll 16
  for (std::size_t term = 1; term < kTerms; ++term) {
    for (std::size_t i = 0; i < packets; ++i) {
      x[i] = pmadd(x[i], h[i], looked_up(kTable[term], part[i]));
    }
  }
}

}  // namespace shardlab
