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
#include <type_traits>
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

/// y 2^m for whole m where that is a normal number: m is added to the exponent of y. Of the sum
/// that is shifted there the last bits are those of m.
template <typename T>
EIGEN_STRONG_INLINE PacketOf<T> scaled_by_power(const PacketOf<T>& y, const PacketOf<T>& m) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  typedef Word Bits __attribute__((vector_size(sizeof(Packet))));
  constexpr int kDigits = std::numeric_limits<T>::digits - 1;
  const Packet shifted = padd(m, pset1<Packet>(T(1.5) * T(Word(1) << kDigits)));
  return std::bit_cast<Packet>(std::bit_cast<Bits>(y) + (std::bit_cast<Bits>(shifted) << kDigits));
}

/// exp of each lane where it is a normal number, as Eigen computes it: x = m log 2 + r, exp(r) by a
/// polynomial, or a quotient of two. The last step takes Eigen four multiplications.
EIGEN_STRONG_INLINE PacketOf<float> normal_exp(const PacketOf<float>& x) {
  using namespace Eigen::internal;
  const auto number = [](float value) { return pset1<PacketOf<float>>(value); };
  const auto m = pfloor(pmadd(x, number(1.44269504088896341f), number(0.5f)));
  const auto r = pmadd(m, number(2.12194440e-4f), pmadd(m, number(-0.693359375f), x));
  const auto r2 = pmul(r, r), r3 = pmul(r2, r);
  auto high = pmadd(number(1.9875691500E-4f), r, number(1.3981999507E-3f));
  auto low = pmadd(number(4.1665795894E-2f), r, number(1.6666665459E-1f));
  high = pmadd(high, r, number(8.3334519073E-3f));
  low = pmadd(low, r, number(5.0000001201E-1f));
  return scaled_by_power<float>(pmadd(pmadd(high, r3, low), r2, padd(r, number(1.0f))), m);
}
EIGEN_STRONG_INLINE PacketOf<double> normal_exp(const PacketOf<double>& x) {
  using namespace Eigen::internal;
  const auto number = [](double value) { return pset1<PacketOf<double>>(value); };
  const auto m = pfloor(pmadd(number(1.4426950408889634073599), x, number(0.5)));
  auto r = psub(x, pmul(m, number(0.693145751953125)));
  r = psub(r, pmul(m, number(1.42860682030941723212e-6)));
  const auto r2 = pmul(r, r);
  auto odd = pmadd(number(1.26177193074810590878e-4), r2, number(3.02994407707441961300e-2));
  odd = pmul(pmadd(odd, r2, number(9.99999999999999999910e-1)), r);
  auto even = pmadd(number(3.00198505138664455042e-6), r2, number(2.52448340349684104192e-3));
  even = pmadd(even, r2, number(2.27265548208155028766e-1));
  even = pmadd(even, r2, number(2.00000000000000000009e0));
  const auto y = pmadd(number(2), pdiv(odd, psub(even, odd)), number(1));
  return scaled_by_power<double>(y, m);
}

/// From where to where exp is a normal number.
template <typename T>
inline constexpr T kLowestExp = -0x1.6232bdd7abcd2p+9;
template <typename T>
inline constexpr T kHighestExp = 0x1.62e42fefa39efp+9;
template <>
inline constexpr float kLowestExp<float> = -0x1.5d589ep+6f;
template <>
inline constexpr float kHighestExp<float> = 0x1.62e42ep+6f;

/// exp of each lane that is at most kHighestExp. Results below the smallest normal number are 0.
template <typename T>
EIGEN_STRONG_INLINE PacketOf<T> packet_exp_below(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const PacketOf<T> number = pselect(pcmp_eq(x, x), normal_exp(x), x);
  return pselect(pcmp_lt(x, pset1<PacketOf<T>>(kLowestExp<T>)), pset1<PacketOf<T>>(0), number);
}

/// exp of each lane. Results above the largest number are infinite.
template <typename T>
PacketOf<T> packet_exp(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  const PacketOf<T> infinite = pset1<PacketOf<T>>(std::numeric_limits<T>::infinity());
  return pselect(pcmp_lt(pset1<PacketOf<T>>(kHighestExp<T>), x), infinite, packet_exp_below<T>(x));
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

/// log(1 + x), where 1 + x has lost the last digits of x: what is lost is made up for by the
/// quotient of x and what is left of it.
template <typename T>
PacketOf<T> packet_log1p(const PacketOf<T>& x) {
  using namespace Eigen::internal;
  using Packet = PacketOf<T>;
  const Packet one = pset1<Packet>(1), sum = padd(x, one), log = packet_log<T>(sum);
  const Packet made_up = pmul(x, pdiv(log, psub(sum, one)));
  const Packet unchanged = por(pcmp_eq(sum, one), pcmp_eq(sum, log));  // nearly 0, infinite
  return pselect(unchanged, x, made_up);
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
struct Vectorized<element::Where> : element::Where {
  // Bit by bit: compilers make a branch of a choice between two elements that lie in memory.
  template <typename T>
  requires std::is_arithmetic_v<T>
  static void map(const bool* condition, const T* yes, const T* no, T* to, std::int64_t count) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    const auto* given = reinterpret_cast<const std::uint8_t*>(condition);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const Bits mask = -static_cast<Bits>(given[i]);
      to[i] = std::bit_cast<T>((std::bit_cast<Bits>(yes[i]) & mask) |
                               (std::bit_cast<Bits>(no[i]) & ~mask));
    }
  }
};
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
struct Vectorized<element::Log1p> : element::Log1p {
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<T>& x) { return packet_log1p<T>(x); });
  }
};
template <>
struct Vectorized<element::Erf> : element::Erf {
  static void map(const float* from, float* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<float>& x) { return packet_erf(x); });
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
struct Vectorized<element::SiluBackward> : element::SiluBackward {
  template <Real T>
  static void map(const T* grad, const T* from, T* to, std::int64_t count) {
    using Packet = PacketOf<T>;
    map_packet_pairs(grad, from, to, count, [](const Packet& g, const Packet& x) {
      using namespace Eigen::internal;
      const Packet one = pset1<Packet>(1), sigmoid = packet_sigmoid<T>(x);
      return pmul(pmul(g, sigmoid), padd(one, pmul(x, psub(one, sigmoid))));
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
