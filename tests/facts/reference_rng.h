// reference_rng.h - starts of the reference's random streams; only recorded facts ask for them.
#pragma once

#include <cstdint>

#include "mesh/local_shape.h"

namespace shardlab {

/// The offsets that the reference's tracker would use (K-34 to K-36, W-7); for comparison only,
/// since random ops here draw by global element index.
struct ReferenceOffsets {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};
ReferenceOffsets reference_rng_offsets(const DTensorSpec& spec, const Coordinate& coordinate,
                                       std::uint64_t offset);

}  // namespace shardlab
