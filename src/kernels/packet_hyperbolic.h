// packet_hyperbolic.h - exp(x) - 1 and the hyperbolic functions of each number in a packet.
#pragma once

#include "kernels/packet_functions.h"

namespace shardlab {

/// From here on exp(x) is too large to compute with.
template <typename T>
inline constexpr T kFarExponent = sizeof(T) == sizeof(float) ? T(80) : T(700);

/// Lanes of packet_expm1() beyond kFarExponent.
template <typename T>
[[gnu::noinline]] void expm1_of_any_lanes(const PacketOf<T>& x, PacketOf<T>& y) {
  using namespace Eigen::internal;
  const PacketOf<T> far = psub(packet_exp<T>(x), pset1<PacketOf<T>>(1));
  y = where_less<T>(x, pset1<PacketOf<T>>(kFarExponent<T>), y, far);
}

/// exp(x) - 1 = 2^m (exp(r) - 1) + (2^m - 1).
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_expm1(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const auto number = [](T value) { return pset1<Packet>(value); };
  constexpr T kMinusOne = -40;  // up to here it is -1
  const Packet within = where_less<T>(x, number(kMinusOne), number(kMinusOne), x);
  const ReducedExponent<T> exponent = reduced_exponent<T>(within);
  const Packet scale = scaled_by_shifted<T>(number(1), exponent.shifted);
  Packet y = pmadd(exp_beyond_one(exponent.rest), scale, psub(scale, number(1)));
  const Packet far = pcmp_lt_or_nan(number(kFarExponent<T>), x);
  if (predux_any(std::bit_cast<PacketOf<float>>(far))) expm1_of_any_lanes<T>(x, y);
  // Of a zero its sign.
  return where_equal<T>(x, number(0), x, y);
}

/// exp(size) / 2 in lanes beyond kFarExponent, where exp(size) may be infinite and this is not.
template <typename T>
[[gnu::noinline]] void half_exp_of_far_lanes(const PacketOf<T>& size, PacketOf<T>& y) {
  using namespace Eigen::internal;
  const PacketOf<T> half = pset1<PacketOf<T>>(T(0.5)), root = packet_exp<T>(pmul(size, half));
  y = where_less<T>(size, pset1<PacketOf<T>>(kFarExponent<T>), y, pmul(pmul(root, half), root));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> with_far_lanes(const PacketOf<T>& size, PacketOf<T> y) {
  using namespace Eigen::internal;
  const PacketOf<T> far = pcmp_lt_or_nan(pset1<PacketOf<T>>(kFarExponent<T>), size);
  if (predux_any(std::bit_cast<PacketOf<float>>(far))) half_exp_of_far_lanes<T>(size, y);
  return y;
}

/// (e + e / (e + 1)) / 2 for e = exp(|x|) - 1.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_sinh(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet one = pset1<Packet>(1), size = pabs(x);
  const Packet e = packet_expm1<T>(pmin(size, pset1<Packet>(kFarExponent<T>)));
  const Packet value = pmul(pset1<Packet>(T(0.5)), padd(e, pdiv(e, padd(e, one))));
  return with_sign_of<T>(x, with_far_lanes<T>(size, value));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_cosh(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet half = pset1<Packet>(T(0.5)), size = pabs(x);
  const Packet power = packet_exp<T>(pmin(size, pset1<Packet>(kFarExponent<T>)));
  return with_far_lanes<T>(size, padd(pmul(half, power), pdiv(half, power)));
}

/// log(1 + u), u large where `size` is, and then log(2 size).
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_area(const PacketOf<T>& size, const PacketOf<T>& u) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet far = pset1<Packet>(T(2) / std::numeric_limits<T>::epsilon());
  const Packet log = packet_log1p<T>(where_less<T>(far, size, size, u));
  const Packet log_two = pset1<Packet>(T(0.693147180559945309417));
  return padd(log, where_less<T>(far, size, log_two, pset1<Packet>(0)));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_asinh(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet one = pset1<Packet>(1), size = pabs(x), square = pmul(size, size);
  const Packet u = padd(size, pdiv(square, padd(one, packet_sqrt<T>(padd(one, square)))));
  return with_sign_of<T>(x, packet_area<T>(size, u));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_acosh(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet one = pset1<Packet>(1), above = psub(x, one);
  const Packet value = packet_area<T>(x, padd(above, packet_sqrt<T>(pmul(above, padd(x, one)))));
  const Packet undefined = pset1<Packet>(std::numeric_limits<T>::quiet_NaN());
  return where_less<T>(x, one, undefined, value);
}

}  // namespace shardlab
