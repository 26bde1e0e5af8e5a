// packet_lookup.h - entries of a table of eight, another in each lane of a packet: in an
// instruction or two, so that a polynomial per part of a function costs little more than one for
// all of it, and has fewer terms.
#pragma once

#include <cstddef>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "kernels/packet_functions.h"

namespace shardlab {

/// table[index] in each lane; of an index the last three bits count.
#ifdef __AVX2__
EIGEN_ALWAYS_INLINE PacketOf<float> looked_up(const float (&table)[8], const BitsOf<float>& index) {
  return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)index);
}
EIGEN_ALWAYS_INLINE PacketOf<double> looked_up(const double (&table)[8],
                                               const BitsOf<double>& index) {
  // Pairs of floats can be looked up in registers of this size.
  const __m256i places = (__m256i)index, twice = _mm256_slli_epi32(places, 1);
  const __m256i pairs = _mm256_add_epi32(_mm256_shuffle_epi32(twice, 0xA0),
                                         _mm256_setr_epi32(0, 1, 0, 1, 0, 1, 0, 1));
  const auto half = [&](const double* entries) {
    const auto* floats = reinterpret_cast<const float*>(entries);
    return _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_loadu_ps(floats), pairs));
  };
  return _mm256_blendv_pd(half(table), half(table + 4),
                          _mm256_castsi256_pd(_mm256_slli_epi64(places, 61)));
}
#else
template <typename T>
PacketOf<T> looked_up(const T (&table)[8], const typename PacketBits<T>::type& index) {
  constexpr std::size_t kWidth = Eigen::internal::packet_traits<T>::size;
  T found[kWidth];
  for (std::size_t i = 0; i < kWidth; ++i) found[i] = table[index[i] & 7];
  return Eigen::internal::ploadu<PacketOf<T> >(found);
}
#endif

}  // namespace shardlab
