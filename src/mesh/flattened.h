// flattened.h - the dims of a mesh that were flattened together, so that one collective may run
// over all of them. Plain data, equal on every rank.
#pragma once

#include <cstdint>

#include "base/inline_vector.h"

namespace shardlab {

/// Sets of mesh dims, as bit masks.
/// In the order in which they were flattened, each set once; a mask has room for 32 mesh dims.
using FlattenedDims = InlineVector<std::uint32_t, 4>;

/// Bit m is set for mesh dim m; the order of the dims does not matter.
inline std::uint32_t mask_of(std::span<const std::size_t> mesh_dims) {
  std::uint32_t mask = 0;
  for (const std::size_t mesh_dim : mesh_dims) mask |= 1u << mesh_dim;
  return mask;
}

}  // namespace shardlab
