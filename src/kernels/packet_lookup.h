// packet_lookup.h - entries of a short table, another in each lane of a packet. Tables that fit one
// or two registers are looked up in an instruction or two, so that a polynomial per part of a
// function costs little more than one for all of it, and has fewer terms.
#pragma once

#include <cstddef>
#include <cstring>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "kernels/packet_functions.h"

namespace shardlab {

/// table[index] in each lane; of an index only the last bits count, as many as entries have.
template <typename T, std::size_t count>
EIGEN_ALWAYS_INLINE PacketOf<T> looked_up_one_by_one(const T (&table)[count],
                                                     const BitsOf<T>& index) {
  constexpr std::size_t kWidth = Eigen::internal::packet_traits<T>::size;
  WordOf<T> places[kWidth];
  T found[kWidth];
  std::memcpy(places, &index, sizeof(places));
  for (std::size_t i = 0; i < kWidth; ++i) found[i] = table[places[i] & (count - 1)];
  return Eigen::internal::ploadu<PacketOf<T>>(found);
}

#ifdef __AVX2__
/// The entries of a table of which both halves were looked up; `bit` of the index chooses the half.
template <int bit>
EIGEN_ALWAYS_INLINE __m256 of_halves(const __m256& low, const __m256& high, const __m256i& index) {
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 31 - bit)));
}
EIGEN_ALWAYS_INLINE __m256 looked_up_in_8(const float* table, const __m256i& index) {
  return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index);
}
EIGEN_ALWAYS_INLINE __m256 looked_up_in_16(const float* table, const __m256i& index) {
  return of_halves<3>(looked_up_in_8(table, index), looked_up_in_8(table + 8, index), index);
}
#endif

/// The same for tables of 8, 16 or 32 entries of float and of 8 of double in few instructions.
template <std::size_t count>
EIGEN_ALWAYS_INLINE PacketOf<float> looked_up(const float (&table)[count],
                                              const BitsOf<float>& index) {
#ifdef __AVX2__
  const __m256i places = (__m256i)index;
  if constexpr (count == 8) {
    return looked_up_in_8(table, places);
  } else if constexpr (count == 16) {
    return looked_up_in_16(table, places);
  } else if constexpr (count == 32) {
    return of_halves<4>(looked_up_in_16(table, places), looked_up_in_16(table + 16, places),
                        places);
  }
#endif
  return looked_up_one_by_one<float>(table, index);
}
template <std::size_t count>
EIGEN_ALWAYS_INLINE PacketOf<double> looked_up(const double (&table)[count],
                                               const BitsOf<double>& index) {
#ifdef __AVX2__
  if constexpr (count == 8) {
    // As pairs of floats, which registers of this size can look up.
    const __m256i places = (__m256i)index, twice = _mm256_slli_epi32(places, 1);
    const __m256i pairs = _mm256_add_epi32(_mm256_shuffle_epi32(twice, 0xA0),
                                           _mm256_setr_epi32(0, 1, 0, 1, 0, 1, 0, 1));
    const auto quarter = [&](const double* entries) {
      return _mm256_castps_pd(looked_up_in_8(reinterpret_cast<const float*>(entries), pairs));
    };
    return _mm256_blendv_pd(quarter(table), quarter(table + 4),
                            _mm256_castsi256_pd(_mm256_slli_epi64(places, 61)));
  }
#endif
  return looked_up_one_by_one<double>(table, index);
}

}  // namespace shardlab
