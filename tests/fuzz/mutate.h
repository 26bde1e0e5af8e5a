// mutate.h - texts made from other texts, the same for the same seed on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab::fuzz {

/// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// 0 to count - 1; 0 for none.
  std::size_t below(std::size_t count) { return count == 0 ? 0 : next() % count; }

 private:
  std::uint64_t state_;
};

/// The material for texts of one kind.
struct Material {
  std::vector<std::string> corpus;  ///< at least one
  std::vector<std::string_view> tokens;
  std::size_t longest = 4096;    ///< bytes of a mutated text
  std::size_t more_numbers = 0;  ///< of 10 changes so many more replace a number
};

/// One text of the corpus after one change, or up to 6: bytes flipped, tokens put in, numbers
/// replaced, parts removed, doubled, swapped or taken from another text.
std::string mutated(const Material& material, Random& random);

}  // namespace shardlab::fuzz
