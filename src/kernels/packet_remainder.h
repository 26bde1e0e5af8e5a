// packet_remainder.h - the rest of a division: exact, as it is less than the divisor and a multiple
// of the last digit of either. If multiplications and additions are fused a quotient and one
// step give it; the quotient may be one too large.
#pragma once

#include <type_traits>

#include "kernels/functors.h"
#include "kernels/packet_functions.h"
#include "kernels/vectors.h"

namespace shardlab {

#ifdef __FMA__
/// to[i] = F of x[i] and y[i], F Fmod or Remainder, for a packet; `to` may equal either.
template <typename F, typename T>
EIGEN_ALWAYS_INLINE void remainders(const T* x, const T* y, T* to) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet dividend = ploadu<Packet>(x), divisor = ploadu<Packet>(y), zero = pset1<Packet>(0);
  const Packet a = pabs(dividend), b = pabs(divisor), quotient = pfloor(pdiv(a, b));
  Packet rest = pmadd(-quotient, b, a);
  rest = where_less<T>(rest, zero, padd(rest, b), rest);
  rest = where_less<T>(rest, b, rest, psub(rest, b));
  rest = with_sign_of<T>(dividend, rest);
  if constexpr (std::is_same_v<F, element::Remainder>) {
    // The sign of the divisor where anything is left.
    const Packet moved = where_less<T>(pmul(rest, with_sign_of<T>(divisor, pset1<Packet>(1))), zero,
                                       padd(rest, divisor), rest);
    rest = where_equal<T>(rest, zero, rest, moved);
  }
  // Quotients whose last digit is larger than 1, and infinite, undefined or zero operands.
  constexpr T kMost = std::numeric_limits<T>::max();
  constexpr T kWholeDigits = T(WordOf<T>(1) << (std::numeric_limits<T>::digits - 1));
  const auto whole = std::bit_cast<VectorOf<T>>(quotient);
  const auto finite = std::bit_cast<VectorOf<T>>(b);
  const MaskOf<T> usual = (whole < kWholeDigits) & (finite <= kMost);
  const std::uint32_t unusual = bits_of<T>(~usual);
  if (unusual != 0) [[unlikely]] {
    Packet lanes = rest;  // arguments of a call are in memory
    replace_lanes_by<F>(x, y, lanes, unusual);
    rest = lanes;
  }
  pstoreu(to, rest);
}
#endif

}  // namespace shardlab
