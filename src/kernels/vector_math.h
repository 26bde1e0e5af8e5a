// vector_math.h - exp, tanh and the like over contiguous runs, packet by packet. The tail is padded
// to a whole packet, so that a value never depends on the place of its element: shards get the same
// bits as the whole.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/packet_activations.h"
#include "kernels/packet_functions.h"

namespace shardlab {

/// to[i] = function(from[i]...), packet by packet; `to` may equal any of them.
template <typename T, typename Function, std::same_as<T>... From>
void map_packets(T* to, std::int64_t count, Function function, const From*... from) {
  using namespace Eigen::internal;
  constexpr std::int64_t kWidth = packet_traits<T>::size;
  std::int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    pstoreu(to + i, function(ploadu<PacketOf<T>>(from + i)...));
  }
  if (i == count) return;
  const auto rest = static_cast<std::size_t>(count - i) * sizeof(T);
  const auto padded = [&](const T* values) {
    T room[kWidth] = {};
    std::memcpy(room, values + i, rest);
    return ploadu<PacketOf<T>>(room);
  };
  T last[kWidth];
  pstoreu(last, function(padded(from)...));
  std::memcpy(to + i, last, rest);
}

/// A function with its form for contiguous runs; types without one take the function element by
/// element. There are two: packet(x...), for packets of T; map(in..., out, count), for the runs
/// themselves.
template <typename F>
struct Vectorized : F {};

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
SHARDLAB_PACKET(Erf, packet_erf<T>(x))
SHARDLAB_PACKET(Gelu, packet_gelu<T>(x))
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
template <typename F, typename T, std::same_as<T>... From>
requires requires(const PacketOf<From>&... x) { Vectorized<F>::template packet<T>(x...); }
void map_function(T* to, std::int64_t count, const From*... from) {
  const auto function = [](const PacketOf<From>&... x) __attribute__((always_inline)) {
    return Vectorized<F>::template packet<T>(x...);
  };
  map_packets(to, count, function, from...);
}

}  // namespace shardlab
