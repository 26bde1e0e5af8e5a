// hash.h - one way to combine hashes. Stable within a process only; nothing printed depends on it.
// Pure functions. Equal hashes prove nothing: tables compare keys, too. A hash that several
// processes compare, or that a file keeps, needs another function.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace shardlab {

/// Mixes `value` into `seed` (a 64-bit multiply and fold).
inline std::uint64_t hash_mix(std::uint64_t seed, std::uint64_t value) {
  __extension__ using Wide = unsigned __int128;
  const Wide wide = static_cast<Wide>(seed ^ 0x9E3779B97F4A7C15ull) *
                    static_cast<Wide>(value ^ 0xD6E8FEB86659FD93ull);
  return static_cast<std::uint64_t>(wide) ^ static_cast<std::uint64_t>(wide >> 64);
}

/// Depends on the length, too, so that [1] and [1, 0] differ.
inline std::uint64_t hash_range(std::uint64_t seed, std::span<const std::int64_t> values) {
  seed = hash_mix(seed, values.size());
  for (const std::int64_t value : values) seed = hash_mix(seed, static_cast<std::uint64_t>(value));
  return seed;
}

/// The hash of the bytes.
std::uint64_t hash_text(std::uint64_t seed, std::string_view text);

}  // namespace shardlab
