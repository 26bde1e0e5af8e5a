// vector_math.h - exp, tanh and the like over contiguous runs, packet by packet. The tail is padded
// to a whole packet, so that a value never depends on where its element stands: shards get the same
// bits as the whole.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/packet_functions.h"
#include "kernels/packet_normal.h"
#include "kernels/packet_power.h"
#include "kernels/vectors.h"

namespace shardlab {

/// step(from, to) on runs of `width` elements; `to` may equal `from`.
template <std::int64_t width, typename T, typename Step>
void map_runs(const T* from, T* to, std::int64_t count, const Step& step) {
  std::int64_t i = 0;
  for (; i + width <= count; i += width) step(from + i, to + i);
  if (i == count) return;
  T padded[width] = {};
  const auto rest = static_cast<std::size_t>(count - i) * sizeof(T);
  std::memcpy(padded, from + i, rest);
  step(padded, padded);
  std::memcpy(to + i, padded, rest);
}

/// to[i] = function(from[i]), packet by packet; `to` may equal `from`.
template <typename T, typename Function>
void map_packets(const T* from, T* to, std::int64_t count, Function function) {
  using namespace Eigen::internal;
  map_runs<packet_traits<T>::size>(
      from, to, count, [&](const T* x, T* result) __attribute__((always_inline)) {
        pstoreu(result, function(ploadu<PacketOf<T>>(x)));
      });
}

/// step(a, b, to) on runs of `width` elements; `to` may equal either.
template <std::int64_t width, typename T, typename Step>
void map_runs_of_pairs(const T* a, const T* b, T* to, std::int64_t count, const Step& step) {
  std::int64_t i = 0;
  for (; i + width <= count; i += width) step(a + i, b + i, to + i);
  if (i == count) return;
  T padded_a[width] = {}, padded_b[width] = {};
  const auto rest = static_cast<std::size_t>(count - i) * sizeof(T);
  std::memcpy(padded_a, a + i, rest);
  std::memcpy(padded_b, b + i, rest);
  step(padded_a, padded_b, padded_a);
  std::memcpy(to + i, padded_a, rest);
}

/// to[i] = function(a[i], b[i]); `to` may equal either.
template <typename T, typename Function>
void map_packet_pairs(const T* a, const T* b, T* to, std::int64_t count, Function function) {
  using namespace Eigen::internal;
  map_runs_of_pairs<packet_traits<T>::size>(
      a, b, to, count, [&](const T* x, const T* y, T* result) __attribute__((always_inline)) {
        pstoreu(result, function(ploadu<PacketOf<T>>(x), ploadu<PacketOf<T>>(y)));
      });
}

/// How many packets go side by side through functions of many steps: what registers have room for.
#ifdef __AVX512F__
inline constexpr std::int64_t kPacketsAtOnce = 4;
#else
inline constexpr std::int64_t kPacketsAtOnce = 2;
#endif

/// function(x) for an array of packets, each of which becomes its function.
template <typename T, typename Function>
void map_packets_at_once(const T* from, T* to, std::int64_t count, Function function) {
  using namespace Eigen::internal;
  constexpr std::int64_t kWidth = packet_traits<T>::size;
  map_runs<kPacketsAtOnce * kWidth>(
      from, to, count, [&](const T* x, T* result) __attribute__((always_inline)) {
        PacketOf<T> packets[kPacketsAtOnce];
        for (std::int64_t i = 0; i < kPacketsAtOnce; ++i) {
          packets[i] = ploadu<PacketOf<T>>(x + i * kWidth);
        }
        function(packets);
        for (std::int64_t i = 0; i < kPacketsAtOnce; ++i) {
          pstoreu(result + i * kWidth, packets[i]);
        }
      });
}
/// The same for elements of bf16, computed in float and rounded.
template <typename Function>
void map_packets_at_once(const BFloat16* from, BFloat16* to, std::int64_t count,
                         Function function) {
  constexpr std::int64_t kWidth = kWidthOf<float>;
  map_runs<kPacketsAtOnce * kWidth>(
      from, to, count, [&](const BFloat16* x, BFloat16* result) __attribute__((always_inline)) {
        VectorOf<float> numbers[kPacketsAtOnce];
        for (std::int64_t i = 0; i < kPacketsAtOnce; i += 2) {
          widen_even_and_odd(numbers[i], numbers[i + 1], x + i * kWidth);
        }
        PacketOf<float> packets[sizeof(numbers) / (sizeof(PacketOf<float>))];
        std::memcpy(packets, numbers, sizeof(numbers));
        function(packets);
        std::memcpy(numbers, packets, sizeof(numbers));
        for (std::int64_t i = 0; i < kPacketsAtOnce; i += 2) {
          narrow_even_and_odd(result + i * kWidth, numbers[i], numbers[i + 1]);
        }
      });
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
    map_packets_at_once(from, to, count, [](auto& x) { packets_erf<T>(x); });
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
    constexpr std::int64_t kWidth = Eigen::internal::packet_traits<float>::size;
    map_runs_of_pairs<kWidth>(
        base, exponent, to, count,
        [](const float* x, const float* y, float* result)
            __attribute__((always_inline)) { powers(x, y, result); });
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
  template <typename T, std::size_t packets>
  EIGEN_ALWAYS_INLINE static void compute(PacketOf<T> (&x)[packets]) {
    PacketOf<T> share[packets];
    for (std::size_t i = 0; i < packets; ++i) share[i] = x[i];
    packets_normal_cdf<T>(share);
    for (std::size_t i = 0; i < packets; ++i) x[i] = Eigen::internal::pmul(x[i], share[i]);
  }
  template <Real T>
  static void map(const T* from, T* to, std::int64_t count) {
    map_packets_at_once(from, to, count, [](auto& x) { compute<T>(x); });
  }
  static void map(const BFloat16* from, BFloat16* to, std::int64_t count) {
    map_packets_at_once(from, to, count, [](auto& x) { compute<float>(x); });
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
      Packet share[1] = {x};
      packets_normal_cdf<T>(share);
      return pmul(g, padd(share[0], pmul(x, density)));
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
