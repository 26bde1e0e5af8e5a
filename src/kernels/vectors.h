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

/// Of one vector. The lane of an element in a sum does not depend on it (row_reduce.h).
inline constexpr std::size_t kBytesOfVector = 32;

/// As many as a vector holds: compilers map it to the registers that a processor has.
template <typename T>
using VectorOf = typename Numbers<T, kBytesOfVector / sizeof(T)>::type;
template <typename T>
inline constexpr std::int64_t kWidthOf = sizeof(VectorOf<T>) / sizeof(T);

/// The bits of a vector of floats.
using Float32Bits = typename Numbers<std::uint32_t, kWidthOf<float>>::type;

/// The result of comparing two such vectors.
template <typename T>
using MaskOf = decltype(VectorOf<T>{} != VectorOf<T>{});

/// Whether a comparison of any two numbers held.
template <typename T>
[[gnu::always_inline]] inline bool any_of(const MaskOf<T>& mask) {
#ifdef __AVX2__
  return _mm256_testz_si256((__m256i)mask, (__m256i)mask) == 0;
#else
  std::uint64_t words[4];
  std::memcpy(words, &mask, sizeof(words));
  return (words[0] | words[1] | words[2] | words[3]) != 0;
#endif
}

/// A bit for each number of which a comparison held, the first in the lowest.
template <typename T>
[[gnu::always_inline]] inline std::uint32_t bits_of(const MaskOf<T>& mask) {
#ifdef __AVX2__
  if constexpr (sizeof(T) == 4) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps((__m256)mask));
  }
  return static_cast<std::uint32_t>(_mm256_movemask_pd((__m256d)mask));
#else
  std::uint32_t bits = 0;
  for (std::int64_t i = 0; i < kWidthOf<T>; ++i) bits |= (mask[i] != 0 ? 1u : 0u) << i;
  return bits;
#endif
}

/// `nan` holds, too, where one of two numbers is NaN.
template <typename T>
void note_nan(MaskOf<T>& nan, const VectorOf<T>& a, const VectorOf<T>& b) {
#ifdef __AVX2__
  if constexpr (std::is_same_v<T, float>) {
    nan |= (MaskOf<T>)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q);
  } else {
    static_assert(std::is_same_v<T, double>);
    nan |= (MaskOf<T>)_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_UNORD_Q);
  }
#else
  nan |= (a != a) | (b != b);
#endif
}

/// Whether rows of these elements are read into the loops over T themselves, several in a step.
template <typename T, typename Source>
inline constexpr bool kWidens = (std::is_same_v<T, float> && std::is_same_v<Source, BFloat16>) ||
                                (std::is_same_v<T, double> && std::is_same_v<Source, float>);

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

/// Elements of bf16 as numbers.
inline void widen_bfloats(VectorOf<float>& to, const BFloat16* from) {
#ifdef __AVX2__
  // Compilers make of a loop a form that suits the function around it, which may be ten times as
  // slow. Each half of a register has all eight elements and takes four of them, zeros below each.
  __m128i halves;
  std::memcpy(&halves, from, sizeof(halves));
  const __m256i places =
      _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1, 8, 9, -1, -1,
                       10, 11, -1, -1, 12, 13, -1, -1, 14, 15);
  const __m256i words = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(halves), places);
  std::memcpy(&to, &words, sizeof(to));
#else
  typename Numbers<std::uint16_t, kWidthOf<float>>::type halves;
  std::memcpy(&halves, from, sizeof(halves));
  const Float32Bits words = __builtin_convertvector(halves, Float32Bits) << 16;
  std::memcpy(&to, &words, sizeof(to));
#endif
}

/// `to` takes the elements from `from` on. Vectors are not results or arguments by value: the call
/// would differ with and without AVX.
template <typename T, typename Source>
void load_vector(VectorOf<T>& to, const Source* from) {
  [[maybe_unused]] constexpr std::size_t kWidth = kWidthOf<T>;
  if constexpr (std::is_same_v<T, Source>) {
    std::memcpy(&to, from, sizeof(to));
  } else if constexpr (std::is_same_v<Source, BFloat16>) {
    widen_bfloats(to, from);
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

#ifdef __AVX2__
/// Each number rounded to nearest even, to a bf16 in a word of its own.
inline void to_bfloat16_words(__m256i& to, const VectorOf<float>& from) {
  Float32Bits words;
  std::memcpy(&words, &from, sizeof(words));
  words = (words + 0x7FFF + (words >> 16 & 1)) >> 16;
  words = from == from ? words : Float32Bits{} + 0x7FC0;
  std::memcpy(&to, &words, sizeof(to));
}
#endif

/// The elements from `to` on take the numbers, each rounded to nearest even; for f16 and bf16 all
/// NaNs of a sign become one.
template <typename T, typename Target>
void store_vector(Target* to, const VectorOf<T>& from) {
  [[maybe_unused]] constexpr std::size_t kWidth = kWidthOf<T>;
  if constexpr (std::is_same_v<T, Target>) {
    std::memcpy(to, &from, sizeof(from));
    return;
  }
#ifdef __F16C__
  if constexpr (std::is_same_v<Target, Half>) {
    // Of a NaN its sign and that it is a quiet one.
    Float32Bits bits;
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
    __m256i words;
    to_bfloat16_words(words, from);
    const __m128i halves =
        _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    std::memcpy(to, &halves, sizeof(halves));
    return;
  }
#endif
  T values[kWidth];
  std::memcpy(values, &from, sizeof(values));
  for (std::size_t i = 0; i < kWidth; ++i) to[i] = narrowed<Target>(values[i]);
}

/// The same for the numbers of two vectors, one after the other.
template <typename T, typename Target>
void store_vectors(Target* to, const VectorOf<T>& first, const VectorOf<T>& second) {
#ifdef __AVX2__
  if constexpr (std::is_same_v<Target, BFloat16>) {
    __m256i low, high;
    to_bfloat16_words(low, first);
    to_bfloat16_words(high, second);
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8);
    std::memcpy(to, &halves, sizeof(halves));
    return;
  }
#endif
  store_vector<T>(to, first);
  store_vector<T>(to + kWidthOf<T>, second);
}

/// The first `count` elements from `from` on, at most a whole vector; zeros behind them.
template <typename T, typename Source>
void load_some(VectorOf<T>& to, const Source* from, std::int64_t count) {
  if (count == kWidthOf<T>) return load_vector<T>(to, from);
  T numbers[kWidthOf<T>] = {};
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = widened<T>(from[i]);
  std::memcpy(&to, numbers, sizeof(to));
}

/// As many elements from `to` on take the first numbers.
template <typename T, typename Target>
void store_some(Target* to, const VectorOf<T>& from, std::int64_t count) {
  if (count == kWidthOf<T>) return store_vector<T>(to, from);
  T numbers[kWidthOf<T>];
  std::memcpy(numbers, &from, sizeof(numbers));
  for (std::int64_t i = 0; i < count; ++i) to[i] = narrowed<Target>(numbers[i]);
}

/// step(i, count) for vectors from i on that together are [0, count): all are whole but the last.
template <typename T, typename Step>
void for_vectors(std::int64_t count, const Step& step) {
  std::int64_t i = 0;
  for (; i + kWidthOf<T> <= count; i += kWidthOf<T>) step(i, kWidthOf<T>);
  if (i < count) step(i, count - i);
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
