// philox.h - Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011): 128 random bits from a 128-bit counter and a 64-bit key, without state.
#pragma once

#include <cstdint>

#include "kernels/functors.h"

namespace shardlab {

/// 128 bits as four words, lowest first.
struct PhiloxWords {
  std::uint32_t word[4];
};

/// Ten rounds of the published constants. Pure.
SHARDLAB_HD inline PhiloxWords philox4x32(PhiloxWords counter, std::uint32_t key0,
                                          std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53} * counter.word[0];
    const std::uint64_t right = std::uint64_t{0xCD9E8D57} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(right >> 32) ^ counter.word[1] ^ key0,
                static_cast<std::uint32_t>(right),
                static_cast<std::uint32_t>(left >> 32) ^ counter.word[3] ^ key1,
                static_cast<std::uint32_t>(left)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

/// The words of one element: key = seed, counter = position (low words first, high half 0).
SHARDLAB_HD inline PhiloxWords element_words(std::uint64_t seed, std::uint64_t position) {
  return philox4x32(
      {{static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0}},
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

/// Words 0 (low) and 1 (high) as one number; `pair` 1: words 2 and 3.
SHARDLAB_HD inline std::uint64_t word_pair(const PhiloxWords& words, int pair) {
  return words.word[2 * pair] | std::uint64_t{words.word[2 * pair + 1]} << 32;
}

/// In [0, 1): the upper 53 bits of words 0 and 1.
SHARDLAB_HD inline double uniform_double(const PhiloxWords& words) {
  return static_cast<double>(word_pair(words, 0) >> 11) * 0x1p-53;
}

/// In [0, 1): the upper `digits` (at most 24) bits of word 0; exact in a float of that precision.
SHARDLAB_HD inline float uniform_float(const PhiloxWords& words, int digits) {
  const float unit = 1.0f / static_cast<float>(std::uint32_t{1} << digits);
  return static_cast<float>(words.word[0] >> (32 - digits)) * unit;
}

/// The two numbers from which Box-Muller makes a standard normal one: sqrt(-2 log(radius)) cos(2 pi
/// turn).
template <typename T>
struct NormalSource {
  T radius;  ///< in (0, 1]
  T turn;    ///< in [0, 1)
};

/// For f64: radius from words 0 and 1, turn from words 2 and 3, 53 bits each.
SHARDLAB_HD inline NormalSource<double> normal_source_double(const PhiloxWords& words) {
  return {(static_cast<double>(word_pair(words, 0) >> 11) + 1) * 0x1p-53,
          static_cast<double>(word_pair(words, 1) >> 11) * 0x1p-53};
}

/// For f32 and narrower: radius from word 0, rounded to float, turn from the upper 24 bits of
/// word 2.
SHARDLAB_HD inline NormalSource<float> normal_source_float(const PhiloxWords& words) {
  return {(static_cast<float>(words.word[0]) + 1.0f) * 0x1p-32f,
          static_cast<float>(words.word[2] >> 8) * 0x1p-24f};
}

}  // namespace shardlab
