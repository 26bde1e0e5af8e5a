// packet_activations.h - activations and their gradients of each number in a packet.
#pragma once

#include "kernels/packet_normal.h"

namespace shardlab {

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_silu(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  return pdiv(x, padd(pset1<PacketOf<T>>(1), packet_exp<T>(pnegate(x))));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_silu_backward(const PacketOf<T>& g, const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const PacketOf<T> one = pset1<PacketOf<T>>(1), sigmoid = packet_sigmoid<T>(x);
  return pmul(pmul(g, sigmoid), padd(one, pmul(x, psub(one, sigmoid))));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_gelu(const PacketOf<T>& x) {
  return Eigen::internal::pmul(x, packet_normal_cdf<T>(x));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_gelu_backward(const PacketOf<T>& g, const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet power = packet_exp<T>(pmul(pmul(x, x), pset1<Packet>(T(-0.5))));
  const Packet density = pmul(power, pset1<Packet>(T(element::kSqrtTwoOverPi / 2)));
  return pmul(g, padd(packet_normal_cdf<T>(x), pmul(x, density)));
}

/// Terms of GeluTanh that are added to and multiplied inside tanh.
template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_gelu_inner(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet cube = pmul(pmul(x, x), pmul(x, pset1<Packet>(T(element::kTanhCubic))));
  return pmul(pset1<Packet>(T(element::kSqrtTwoOverPi)), padd(x, cube));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_gelu_tanh(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const PacketOf<T> half = pmul(pset1<PacketOf<T>>(T(0.5)), x);
  return pmul(half, padd(pset1<PacketOf<T>>(1), packet_tanh(packet_gelu_inner<T>(x))));
}

template <typename T>
EIGEN_ALWAYS_INLINE PacketOf<T> packet_gelu_tanh_backward(const PacketOf<T>& g,
                                                          const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet one = pset1<Packet>(1), half = pset1<Packet>(T(0.5));
  const Packet tanh = packet_tanh(packet_gelu_inner<T>(x));
  const Packet cubic = pmul(pset1<Packet>(T(3 * element::kTanhCubic)), pmul(x, x));
  const Packet slope = pmul(pset1<Packet>(T(element::kSqrtTwoOverPi)), padd(one, cubic));
  const Packet bend = pmul(pmul(pmul(half, x), psub(one, pmul(tanh, tanh))), slope);
  return pmul(g, padd(pmul(half, padd(one, tanh)), bend));
}

}  // namespace shardlab
