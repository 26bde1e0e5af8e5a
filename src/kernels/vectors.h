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

/// One element as T.
template <typename T, typename Source>
T widened(Source value) {
  if constexpr (std::is_same_v<Source, BFloat16>) {
    return to_float(value);
  } else {
    return T(value);
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
  } else {
    typename Numbers<Source, kWidth>::type narrow;
    std::memcpy(&narrow, from, sizeof(narrow));
    to = __builtin_convertvector(narrow, VectorOf<T>);
  }
}

/// The dtype whose elements are these.
template <typename Source>
constexpr DType stored_dtype() {
  if constexpr (std::is_same_v<Source, BFloat16>)
    return DType::kBF16;
  else
    return dtype_of<Source>();
}

}  // namespace shardlab
