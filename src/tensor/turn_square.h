// turn_square.h - transposing a small square of a matrix in registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace shardlab {

/// Bytes of the vectors that transpose a matrix, whether they can for a type, and how many elements
/// a vector has.
#ifdef __AVX__
inline constexpr std::size_t kVectorBytes = 32;
#else
inline constexpr std::size_t kVectorBytes = 16;
#endif
template <typename T>
inline constexpr bool kByVectors = sizeof(T) <= 8 && sizeof(T) >= 2;
template <typename T>
inline constexpr int kLanesTurned = sizeof(T) == 2 ? 8 : static_cast<int>(kVectorBytes / sizeof(T));

/// The upper half of each 2 `half` lanes of `a` changes places with the lower half of `b`.
template <int half, typename Lanes, int... lane>
inline void exchange_halves(Lanes& a, Lanes& b, std::integer_sequence<int, lane...>) {
  constexpr int kCount = sizeof...(lane);
  const Lanes first =
      __builtin_shufflevector(a, b, (lane / half % 2 == 0 ? lane : kCount + lane - half)...);
  b = __builtin_shufflevector(a, b, (lane / half % 2 == 0 ? lane + half : kCount + lane)...);
  a = first;
}

template <int half, typename Lanes, int count>
inline void turn_lanes(Lanes (&rows)[count]) {
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) {
    if (i / half % 2 != 0) continue;
    exchange_halves<half>(rows[i], rows[i + half], std::make_integer_sequence<int, count>{});
  }
  if constexpr (half > 1) turn_lanes<half / 2>(rows);
}

/// to[r][c] = from[c][r] for kLanesTurned rows and columns; steps between rows.
template <typename T>
inline void turn_square(T* to, std::int64_t to_step, const T* from, std::int64_t from_step) {
  constexpr int kCount = kLanesTurned<T>;
  typedef T Lanes __attribute__((vector_size(kCount * sizeof(T))));
  Lanes rows[kCount];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) std::memcpy(&rows[i], from + i * from_step, sizeof(Lanes));
  turn_lanes<kCount / 2>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) std::memcpy(to + i * to_step, &rows[i], sizeof(Lanes));
}

}  // namespace shardlab
