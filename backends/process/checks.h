// checks.h - whether processes compare their calls before any data moves.
#pragma once

#include <cstdint>

namespace shardlab {

/// Ranks that share a process always compare; between processes it costs a message to rank 0 and
/// back for each collective.
enum class CollectiveChecks : std::uint8_t { kOff, kOn };

}  // namespace shardlab
