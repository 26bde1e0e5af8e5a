// vector_math.h - exp, tanh and the like over contiguous runs, through Eigen's packets. The tail is
// padded to a whole packet, so that a value never depends on where its element stands: shards get
// the same bits as the whole.
#pragma once

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <unsupported/Eigen/SpecialFunctions>

#include "kernels/math_functors.h"

namespace shardlab {

template <typename T>
using PacketOf = typename Eigen::internal::packet_traits<T>::type;

/// to[i] = function(from[i]), packet by packet; `to` may equal `from`.
template <typename T, typename Function>
void map_packets(const T* from, T* to, std::int64_t count, Function function) {
  constexpr std::int64_t kWidth = Eigen::internal::packet_traits<T>::size;
  std::int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    Eigen::internal::pstoreu(to + i, function(Eigen::internal::ploadu<PacketOf<T>>(from + i)));
  }
  if (i == count) return;
  T padded[kWidth] = {};
  const auto rest = static_cast<std::size_t>(count - i) * sizeof(T);
  std::memcpy(padded, from + i, rest);
  Eigen::internal::pstoreu(padded, function(Eigen::internal::ploadu<PacketOf<T>>(padded)));
  std::memcpy(to + i, padded, rest);
}

/// to[i] = function(a[i], b[i]); `to` may equal either.
template <typename T, typename Function>
void map_packet_pairs(const T* a, const T* b, T* to, std::int64_t count, Function function) {
  using namespace Eigen::internal;
  constexpr std::int64_t kWidth = packet_traits<T>::size;
  std::int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    pstoreu(to + i, function(ploadu<PacketOf<T>>(a + i), ploadu<PacketOf<T>>(b + i)));
  }
  if (i == count) return;
  T padded_a[kWidth] = {}, padded_b[kWidth] = {};
  const auto rest = static_cast<std::size_t>(count - i) * sizeof(T);
  std::memcpy(padded_a, a + i, rest);
  std::memcpy(padded_b, b + i, rest);
  pstoreu(padded_a, function(ploadu<PacketOf<T>>(padded_a), ploadu<PacketOf<T>>(padded_b)));
  std::memcpy(to + i, padded_a, rest);
}

/// exp of each lane by Eigen's polynomial: x = m log 2 + r, and exp(r) gets m more in its exponent,
/// where Eigen multiplies four times. Right for results that are normal numbers.
inline PacketOf<float> normal_exp(const PacketOf<float>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<float>;
  typedef std::uint32_t Bits __attribute__((vector_size(sizeof(Packet))));
  const auto number = [](float value) { return pset1<Packet>(value); };
  const Packet m = pfloor(pmadd(x, number(1.44269504088896341f), number(0.5f)));
  const Packet r = pmadd(m, number(2.12194440e-4f), pmadd(m, number(-0.693359375f), x));
  const Packet r2 = pmul(r, r), r3 = pmul(r2, r);
  Packet high = pmadd(number(1.9875691500E-4f), r, number(1.3981999507E-3f));
  Packet low = pmadd(number(4.1665795894E-2f), r, number(1.6666665459E-1f));
  high = pmadd(high, r, number(8.3334519073E-3f));
  low = pmadd(low, r, number(5.0000001201E-1f));
  const Packet y = pmadd(pmadd(high, r3, low), r2, padd(r, number(1.0f)));
  // The sum's last bits are those of m.
  const Packet shifted = padd(m, number(0x1.8p23f));
  return std::bit_cast<Packet>(std::bit_cast<Bits>(y) + (std::bit_cast<Bits>(shifted) << 23));
}
inline PacketOf<double> normal_exp(const PacketOf<double>& x) { return Eigen::internal::pexp(x); }

/// From where to where exp is a normal number.
template <typename T>
inline constexpr T kLowestExp = -0x1.6232bdd7abcd2p+9;
template <typename T>
inline constexpr T kHighestExp = 0x1.62e42fefa39efp+9;
template <>
inline constexpr float kLowestExp<float> = -0x1.5d589ep+6f;
template <>
inline constexpr float kHighestExp<float> = 0x1.62e42ep+6f;

/// exp of each lane. Results below the smallest normal number are 0 here and those above
/// the largest one are infinite.
template <typename T>
PacketOf<T> packet_exp(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet highest = pset1<Packet>(kHighestExp<T>);
  const Packet lowest = pset1<Packet>(kLowestExp<T>);
  const Packet infinite = pset1<Packet>(std::numeric_limits<T>::infinity());
  const Packet number = pselect(pcmp_eq(x, x), normal_exp(x), x);
  const Packet high = pselect(pcmp_lt(highest, x), infinite, number);
  return pselect(pcmp_lt(x, lowest), pset1<Packet>(0), high);
}

/// log of each lane. Eigen takes subnormal numbers for the smallest normal one: they are scaled.
template <typename T>
PacketOf<T> packet_log(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  constexpr int kShift = 60;
  const Packet small = pcmp_lt(x, pset1<Packet>(std::numeric_limits<T>::min()));
  const Packet scale = pset1<Packet>(std::ldexp(T(1), kShift));
  const Packet shift = pset1<Packet>(T(kShift * 0.693147180559945309417));
  const Packet scaled = pselect(small, pmul(x, scale), x);
  return psub(plog(scaled), pselect(small, shift, pset1<Packet>(0)));
}

/// 1 / (1 + exp(-x)).
template <typename T>
PacketOf<T> packet_sigmoid(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const PacketOf<T> one = pset1<PacketOf<T>>(1);
  return pdiv(one, padd(one, packet_exp<T>(pnegate(x))));
}

/// Eigen has packets of float only, and makes numbers of NaN.
inline PacketOf<float> packet_tanh(const PacketOf<float>& x) {
  using namespace Eigen::internal;
  return pselect(pcmp_eq(x, x), ptanh(x), x);
}

// erf of each lane; exactly +-1 where float cannot tell it from that, NaN stays.
inline PacketOf<float> packet_erf(const PacketOf<float>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<float>;
  const Packet one = pset1<Packet>(1.0f);
  const Packet inner = generic_fast_erf_float(x);
  const Packet sign = pselect(pcmp_lt(x, pset1<Packet>(0.0f)), pnegate(one), one);
  const Packet ends = pselect(pcmp_lt(pabs(x), pset1<Packet>(4.0f)), inner, sign);
  return pselect(pcmp_eq(x, x), ends, x);
}

// The normal distribution function.
inline PacketOf<float> packet_normal_cdf(const PacketOf<float>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<float>;
  const Packet erf = packet_erf(pmul(x, pset1<Packet>(float(element::kSqrtHalf))));
  return pmul(pset1<Packet>(0.5f), padd(pset1<Packet>(1.0f), erf));
}

/// A function with its form for contiguous runs, F::map(in..., out, count), where it has one; types
/// without one take the function element by element.
template <typename F>
struct Vectorized : F {};

template <>
struct Vectorized<element::Exp> : element::Exp {
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<T>& x) { return packet_exp<T>(x); });
  }
};
template <>
struct Vectorized<element::Log> : element::Log {
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<T>& x) { return packet_log<T>(x); });
  }
};
template <>
struct Vectorized<element::Sin> : element::Sin {
  static void map(const float* from, float* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<float>& x) { return Eigen::internal::psin(x); });
  }
};
template <>
struct Vectorized<element::Cos> : element::Cos {
  static void map(const float* from, float* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<float>& x) { return Eigen::internal::pcos(x); });
  }
};
template <>
struct Vectorized<element::Tanh> : element::Tanh {
  static void map(const float* from, float* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<float>& x) { return packet_tanh(x); });
  }
};
template <>
struct Vectorized<element::Sigmoid> : element::Sigmoid {
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<T>& x) { return packet_sigmoid<T>(x); });
  }
};
template <>
struct Vectorized<element::Silu> : element::Silu {
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<T>& x) {
      using namespace Eigen::internal;
      const PacketOf<T> one = pset1<PacketOf<T>>(1);
      return pdiv(x, padd(one, packet_exp<T>(pnegate(x))));
    });
  }
};
template <>
struct Vectorized<element::Gelu> : element::Gelu {
  static void map(const float* from, float* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<float>& x) {
      return Eigen::internal::pmul(x, packet_normal_cdf(x));
    });
  }
};
template <>
struct Vectorized<element::GeluTanh> : element::GeluTanh {
  static void map(const float* from, float* to, std::int64_t count) {
    using namespace Eigen::internal;
    map_packets(from, to, count, [](const PacketOf<float>& x) {
      const auto cube =
          pmul(pmul(x, x), pmul(x, pset1<PacketOf<float>>(float(element::kTanhCubic))));
      const auto inner =
          pmul(pset1<PacketOf<float>>(float(element::kSqrtTwoOverPi)), padd(x, cube));
      const auto one = pset1<PacketOf<float>>(1.0f);
      return pmul(pmul(pset1<PacketOf<float>>(0.5f), x), padd(one, packet_tanh(inner)));
    });
  }
};
template <>
struct Vectorized<element::GeluBackward> : element::GeluBackward {
  static void map(const float* grad, const float* from, float* to, std::int64_t count) {
    using namespace Eigen::internal;
    using Packet = PacketOf<float>;
    map_packet_pairs(grad, from, to, count, [](const Packet& g, const Packet& x) {
      const Packet power = packet_exp<float>(pmul(pmul(x, x), pset1<Packet>(-0.5f)));
      const Packet density = pmul(power, pset1<Packet>(float(element::kSqrtTwoOverPi / 2)));
      return pmul(g, padd(packet_normal_cdf(x), pmul(x, density)));
    });
  }
};

}  // namespace shardlab
