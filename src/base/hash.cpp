// Text is hashed by the standard library, so that its hash may differ between builds: it must not
// be printed or stored.
#include "base/hash.h"

#include <functional>

namespace shardlab {

std::uint64_t hash_text(std::uint64_t seed, std::string_view text) {
  return hash_mix(seed, std::hash<std::string_view>{}(text));
}

}  // namespace shardlab
