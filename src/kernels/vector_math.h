// vector_math.h - exp, tanh and the like over contiguous runs, packet by packet. The tail is padded
// to a whole packet, so that a value never depends on where its element stands: shards get the same
// bits as the whole.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/packet_functions.h"

namespace shardlab {

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

/// to[i] = function(a[i], b[i]) computed in double, a packet of doubles at a time.
template <typename Function>
void map_wide_pairs(const float* a, const float* b, float* to, std::int64_t count,
                    Function function) {
  constexpr std::int64_t kWidth = Eigen::internal::packet_traits<double>::size;
  typedef float Narrow __attribute__((vector_size(kWidth * sizeof(float))));
  typedef double Wide __attribute__((vector_size(kWidth * sizeof(double))));
  const auto step = [function](const float* x, const float* y, float* result) {
    Narrow from[2];
    std::memcpy(&from[0], x, sizeof(Narrow));
    std::memcpy(&from[1], y, sizeof(Narrow));
    const auto wide = [](const Narrow& narrow) {
      return std::bit_cast<PacketOf<double>>(__builtin_convertvector(narrow, Wide));
    };
    const Wide value = std::bit_cast<Wide>(function(wide(from[0]), wide(from[1])));
    const Narrow rounded = __builtin_convertvector(value, Narrow);
    std::memcpy(result, &rounded, sizeof(Narrow));
  };
  std::int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) step(a + i, b + i, to + i);
  if (i == count) return;
  float padded_a[kWidth] = {}, padded_b[kWidth] = {};
  const auto rest = static_cast<std::size_t>(count - i) * sizeof(float);
  std::memcpy(padded_a, a + i, rest);
  std::memcpy(padded_b, b + i, rest);
  step(padded_a, padded_b, padded_a);
  std::memcpy(to + i, padded_a, rest);
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
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<T>& x) { return packet_erf(x); });
  }
};
template <>
struct Vectorized<element::Sin> : element::Sin {
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    map_packets(from, to, count,
                [](const PacketOf<T>& x) { return packet_sine<Turn::kSin, T>(x); });
  }
};
template <>
struct Vectorized<element::Cos> : element::Cos {
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    map_packets(from, to, count,
                [](const PacketOf<T>& x) { return packet_sine<Turn::kCos, T>(x); });
  }
};
template <>
struct Vectorized<element::Tan> : element::Tan {
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    map_packets(from, to, count,
                [](const PacketOf<T>& x) { return packet_sine<Turn::kTan, T>(x); });
  }
};
template <>
struct Vectorized<element::Tanh> : element::Tanh {
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<T>& x) { return packet_tanh(x); });
  }
};
template <>
struct Vectorized<element::Pow> : element::Pow {
  static void map(const float* base, const float* exponent, float* to, std::int64_t count) {
    map_wide_pairs(base, exponent, to, count,
                   [](const PacketOf<double>& x, const PacketOf<double>& y) {
                     return packet_power_for_float(x, y);
                   });
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
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    map_packets(from, to, count, [](const PacketOf<T>& x) {
      return Eigen::internal::pmul(x, packet_normal_cdf<T>(x));
    });
  }
};
template <>
struct Vectorized<element::GeluTanh> : element::GeluTanh {
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    using namespace Eigen::internal;
    map_packets(from, to, count, [](const PacketOf<T>& x) {
      const auto half = pmul(pset1<PacketOf<T>>(T(0.5)), x);
      return pmul(half, padd(pset1<PacketOf<T>>(1), packet_tanh(packet_gelu_inner<T>(x))));
    });
  }
};
template <>
struct Vectorized<element::GeluBackward> : element::GeluBackward {
  template <Real T>
  static void map(const T* grad, const T* from, T* to, std::int64_t count) {
    using namespace Eigen::internal;
    using Packet = PacketOf<T>;
    map_packet_pairs(grad, from, to, count, [](const Packet& g, const Packet& x) {
      const Packet power = packet_exp<T>(pmul(pmul(x, x), pset1<Packet>(T(-0.5))));
      const Packet density = pmul(power, pset1<Packet>(T(element::kSqrtTwoOverPi / 2)));
      return pmul(g, padd(packet_normal_cdf<T>(x), pmul(x, density)));
    });
  }
};
template <>
struct Vectorized<element::GeluTanhBackward> : element::GeluTanhBackward {
  template <Real T>
  static void map(const T* grad, const T* from, T* to, std::int64_t count) {
    using namespace Eigen::internal;
    using Packet = PacketOf<T>;
    map_packet_pairs(grad, from, to, count, [](const Packet& g, const Packet& x) {
      const Packet one = pset1<Packet>(1), half = pset1<Packet>(T(0.5));
      const Packet tanh = packet_tanh(packet_gelu_inner<T>(x));
      const Packet cubic = pmul(pset1<Packet>(T(3 * element::kTanhCubic)), pmul(x, x));
      const Packet slope = pmul(pset1<Packet>(T(element::kSqrtTwoOverPi)), padd(one, cubic));
      const Packet bend = pmul(pmul(pmul(half, x), psub(one, pmul(tanh, tanh))), slope);
      return pmul(g, padd(pmul(half, padd(one, tanh)), bend));
    });
  }
};

}  // namespace shardlab
