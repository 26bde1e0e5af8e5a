// past_caches.h - writing arrays past the caches: the lines written are not read first, and what
// caches hold stays there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#ifdef __AVX__
#include <immintrin.h>
#endif

namespace shardlab {

inline constexpr std::int64_t kCacheLine = 64;  // bytes

/// Whether so many bytes are more than caches hold until someone reads them.
inline bool is_beyond_caches(std::int64_t bytes) { return bytes >= std::int64_t{8} << 20; }

/// Writes `bytes`, whole registers, to a multiple of their size. end_writes_past_caches() must be
/// called before another thread may read them. An ordinary copy where processors have no such
/// writes.
inline void write_past_caches(void* to, const void* from, std::size_t bytes) {
#ifdef __AVX__
  for (std::size_t i = 0; i < bytes; i += sizeof(__m256i)) {
    __m256i words;
    std::memcpy(&words, static_cast<const std::byte*>(from) + i, sizeof(words));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(static_cast<std::byte*>(to) + i), words);
  }
#else
  std::memcpy(to, from, bytes);
#endif
}

/// Orders these writes before all that follows.
inline void end_writes_past_caches() {
#ifdef __AVX__
  _mm_sfence();
#endif
}

}  // namespace shardlab
