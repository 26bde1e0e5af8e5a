// draws.h - numbers drawn from a seed, the same on every machine and library: a schedule replays.
#pragma once

#include <cstdint>

namespace shardlab {

/// splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}

  /// 64 bits.
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ull;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
    return mixed ^ (mixed >> 31);
  }
  /// In [0, count); count > 0. Uneven by less than count / 2^32.
  std::uint32_t below(std::uint32_t count) {
    return static_cast<std::uint32_t>(((next() >> 32) * count) >> 32);
  }

 private:
  std::uint64_t state_;
};

}  // namespace shardlab
