// vector_math.h - exp, tanh and the like over contiguous runs, packet by packet. The tail is padded
// to a whole packet, so that a value never depends on the place of its element: shards get the same
// bits as the whole.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "kernels/packet_activations.h"
#include "kernels/packet_functions.h"

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

/// Number of packets that functions of many steps compute side by side: as many as registers have
/// room for.
inline constexpr std::int64_t kPacketsAtOnce = 2;

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
/// A function with its form for contiguous runs; types without one take the function element by
/// element. There are three: packet(x...), for packets of T; packets(x), for an array of them, each
/// of which becomes its function; map(in..., out, count), for the runs themselves.
template <typename F>
struct Vectorized : F {};

/// Whether F is computed by packets of T.
template <typename F, typename T>
concept HasPacket = requires(const PacketOf<T>& x) {
  Vectorized<F>::template packet<T>(x);
};
template <typename F, typename T>
concept HasPackets = requires(PacketOf<T> (&x)[2]) {
  Vectorized<F>::template packets<T>(x);
};
template <typename F, typename T>
concept HasPairPacket = requires(const PacketOf<T>& x) {
  Vectorized<F>::template packet<T>(x, x);
};

#define SHARDLAB_PACKET(Name, value)                                      \
  template <>                                                             \
  struct Vectorized<element::Name> : element::Name {                      \
    template <Real T>                                                     \
    EIGEN_ALWAYS_INLINE static PacketOf<T> packet(const PacketOf<T>& x) { \
      return value;                                                       \
    }                                                                     \
  };
SHARDLAB_PACKET(Exp, packet_exp<T>(x))
SHARDLAB_PACKET(Log, packet_log<T>(x))
SHARDLAB_PACKET(Tanh, packet_tanh(x))
SHARDLAB_PACKET(Sigmoid, packet_sigmoid<T>(x))
SHARDLAB_PACKET(Silu, packet_silu<T>(x))
SHARDLAB_PACKET(GeluTanh, packet_gelu_tanh<T>(x))
#undef SHARDLAB_PACKET

#define SHARDLAB_PAIR_PACKET(Name, value)                                                       \
  template <>                                                                                   \
  struct Vectorized<element::Name> : element::Name {                                            \
    template <Real T>                                                                           \
    EIGEN_ALWAYS_INLINE static PacketOf<T> packet(const PacketOf<T>& a, const PacketOf<T>& b) { \
      return value;                                                                             \
    }                                                                                           \
  };
SHARDLAB_PAIR_PACKET(SiluBackward, packet_silu_backward<T>(a, b))
SHARDLAB_PAIR_PACKET(GeluBackward, packet_gelu_backward<T>(a, b))
SHARDLAB_PAIR_PACKET(GeluTanhBackward, packet_gelu_tanh_backward<T>(a, b))
#undef SHARDLAB_PAIR_PACKET

template <>
struct Vectorized<element::Erf> : element::Erf {
  template <Real T, std::size_t count>
  EIGEN_ALWAYS_INLINE static void packets(PacketOf<T> (&x)[count]) {
    packets_erf<T>(x);
  }
};
template <>
struct Vectorized<element::Gelu> : element::Gelu {
  template <Real T, std::size_t count>
  EIGEN_ALWAYS_INLINE static void packets(PacketOf<T> (&x)[count]) {
    PacketOf<T> share[count];
    for (std::size_t i = 0; i < count; ++i) share[i] = x[i];
    packets_normal_cdf<T>(share);
    for (std::size_t i = 0; i < count; ++i) x[i] = Eigen::internal::pmul(x[i], share[i]);
  }
};
template <>
struct Vectorized<element::Where> : element::Where {
  // Bit by bit: compilers make a branch of a choice between two elements in memory.
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

/// F over contiguous runs by its packets.
template <typename F, typename T>
requires HasPacket<F, T> || HasPackets<F, T>
void map_function(const T* from, T* to, std::int64_t count) {
  using V = Vectorized<F>;
  if constexpr (HasPackets<F, T>) {
    map_packets_at_once(
        from, to, count, [](auto& x) __attribute__((always_inline)) { V::template packets<T>(x); });
  } else {
    map_packets(from, to, count, [](const PacketOf<T>& x) { return V::template packet<T>(x); });
  }
}
template <typename F, typename T>
requires HasPairPacket<F, T>
void map_function(const T* a, const T* b, T* to, std::int64_t count) {
  using V = Vectorized<F>;
  map_packet_pairs(a, b, to, count, [](const PacketOf<T>& x, const PacketOf<T>& y) {
    return V::template packet<T>(x, y);
  });
}

}  // namespace shardlab
