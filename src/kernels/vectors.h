// vectors.h - several numbers of one type as the compiler's vectors, and reading them from elements
// of this type or a narrower one.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "kernels/element_types.h"

namespace shardlab {

/// `width` numbers of one type.
template <typename T, std::size_t width>
struct Numbers {
  typedef T type __attribute__((vector_size(width * sizeof(T))));
};

/// As many as 32 bytes hold: compilers make of it what registers a processor has.
template <typename T>
using VectorOf = typename Numbers<T, 32 / sizeof(T)>::type;
template <typename T>
inline constexpr std::int64_t kWidthOf = sizeof(VectorOf<T>) / sizeof(T);

/// What comparing two such vectors gives.
template <typename T>
using MaskOf = decltype(VectorOf<T>{} != VectorOf<T>{});

/// Whether rows of these elements are read into the loops over T themselves, several in a step.
template <typename T, typename Source>
inline constexpr bool kWidens = (std::is_same_v<T, float> && std::is_same_v<Source, BFloat16>) ||
                                (std::is_same_v<T, double> && std::is_same_v<Source, float>);

/// Whether the processor has an instruction for vectors of f16.
#ifdef __F16C__
inline constexpr bool kConvertsHalves = true;
#else
inline constexpr bool kConvertsHalves = false;
#endif

/// One element as T.
template <typename T, typename Source>
T widened(Source value) {
  if constexpr (std::is_same_v<Source, BFloat16>) {
    return to_float(value);
  } else if constexpr (std::is_same_v<Source, Half>) {
    return half_to_float(value);
  } else {
    return T(value);
  }
}

/// A number as an element, rounded to nearest even.
template <typename Target, typename T>
Target narrowed(T value) {
  if constexpr (std::is_same_v<Target, BFloat16>) {
    return to_bfloat16(value);
  } else if constexpr (std::is_same_v<Target, Half>) {
    return float_to_half(value);
  } else {
    return Target(value);
  }
}

/// `to` takes the elements from `from` on. Vectors are no results and no arguments by value: that
/// is another call with AVX than without.
template <typename T, typename Source>
void load_vector(VectorOf<T>& to, const Source* from) {
  constexpr std::size_t kWidth = 32 / sizeof(T);
  if constexpr (std::is_same_v<T, Source>) {
    std::memcpy(&to, from, sizeof(to));
  } else if constexpr (std::is_same_v<Source, BFloat16>) {
#ifdef __AVX2__
    static_assert(kWidth == 8);
    // Of a loop compilers make what suits the function around it, which may be ten times as slow.
    __m128i halves;
    std::memcpy(&halves, from, sizeof(halves));
    const __m256i words = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
    std::memcpy(&to, &words, sizeof(to));
#else
    using Words = typename Numbers<std::uint32_t, kWidth>::type;
    typename Numbers<std::uint16_t, kWidth>::type halves;
    std::memcpy(&halves, from, sizeof(halves));
    const Words words = __builtin_convertvector(halves, Words) << 16;
    std::memcpy(&to, &words, sizeof(to));
#endif
  } else if constexpr (std::is_same_v<Source, Half>) {
#ifdef __F16C__
    __m128i halves;
    std::memcpy(&halves, from, sizeof(halves));
    const __m256 wide = _mm256_cvtph_ps(halves);
    std::memcpy(&to, &wide, sizeof(to));
#else
    float values[kWidth];
    for (std::size_t i = 0; i < kWidth; ++i) values[i] = half_to_float(from[i]);
    std::memcpy(&to, values, sizeof(to));
#endif
  } else {
#ifdef __AVX2__
    static_assert(std::is_same_v<T, double> && std::is_same_v<Source, float>);
    const __m256d wide = _mm256_cvtps_pd(_mm_loadu_ps(from));
    std::memcpy(&to, &wide, sizeof(to));
#else
    typename Numbers<Source, kWidth>::type narrow;
    std::memcpy(&narrow, from, sizeof(narrow));
    to = __builtin_convertvector(narrow, VectorOf<T>);
#endif
  }
}

/// The same numbers as doubles, a part of them in each vector.
template <typename T>
void widen_vector(const VectorOf<T>& from, VectorOf<double> (&to)[sizeof(double) / sizeof(T)]) {
  if constexpr (std::is_same_v<T, double>) {
    to[0] = from;
  } else {
    T numbers[kWidthOf<T>];
    std::memcpy(numbers, &from, sizeof(numbers));
    for (std::size_t i = 0; i < sizeof(double) / sizeof(T); ++i) {
      load_vector<double>(to[i], static_cast<const T*>(numbers) + i * kWidthOf<double>);
    }
  }
}

/// The elements from `to` on take the numbers, each rounded to nearest even; of f16 and bf16 one
/// NaN stands for all of a sign.
template <typename T, typename Target>
void store_vector(Target* to, const VectorOf<T>& from) {
  constexpr std::size_t kWidth = 32 / sizeof(T);
  if constexpr (std::is_same_v<T, Target>) {
    std::memcpy(to, &from, sizeof(from));
    return;
  }
#ifdef __F16C__
  if constexpr (std::is_same_v<Target, Half>) {
    // Of a NaN its sign and that it is a quiet one.
    using Words = typename Numbers<std::uint32_t, kWidth>::type;
    Words bits;
    std::memcpy(&bits, &from, sizeof(bits));
    bits = from == from ? bits : (bits & 0x80000000u) | 0x7FC00000u;
    __m256 numbers;
    std::memcpy(&numbers, &bits, sizeof(numbers));
    const __m128i halves = _mm256_cvtps_ph(numbers, _MM_FROUND_TO_NEAREST_INT);
    std::memcpy(to, &halves, sizeof(halves));
    return;
  }
#endif
#ifdef __AVX2__
  if constexpr (std::is_same_v<Target, BFloat16>) {
    using Words = typename Numbers<std::uint32_t, kWidth>::type;
    Words bits;
    std::memcpy(&bits, &from, sizeof(bits));
    const Words rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    const Words words = from == from ? rounded : Words{} + 0x7FC0;
    __m256i packed;
    std::memcpy(&packed, &words, sizeof(packed));
    const __m128i halves =
        _mm_packus_epi32(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1));
    std::memcpy(to, &halves, sizeof(halves));
    return;
  }
#endif
  T values[kWidth];
  std::memcpy(values, &from, sizeof(values));
  for (std::size_t i = 0; i < kWidth; ++i) to[i] = narrowed<Target>(values[i]);
}

/// The dtype whose elements are these.
template <typename Source>
constexpr DType stored_dtype() {
  if constexpr (std::is_same_v<Source, BFloat16>)
    return DType::kBF16;
  else if constexpr (std::is_same_v<Source, Half>)
    return DType::kF16;
  else
    return dtype_of<Source>();
}

}  // namespace shardlab
