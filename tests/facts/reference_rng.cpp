// Pieces are numbered along the tensor dims, and each takes as much of the stream as the first one.
#include "tests/facts/reference_rng.h"

namespace shardlab {

namespace {
std::uint64_t round_up_to_4(std::uint64_t value) { return (value + 3) / 4 * 4; }
}  // namespace

ReferenceOffsets reference_rng_offsets(const DTensorSpec& spec, const Coordinate& coordinate,
                                       std::uint64_t offset) {
  // The recorded order: row-major over the mesh dims of each tensor dim, then over tensor dims; the
  // first shard's size takes only the last mesh dim of a tensor dim into account.
  std::uint64_t shard_index = 0;
  std::uint64_t first_shard = 1;
  for (std::size_t dim = 0; dim < spec.ndim(); ++dim) {
    std::int64_t index = 0, count = 1, first = spec.shape()[dim];
    for (std::size_t mesh_dim = 0; mesh_dim < spec.placements().size(); ++mesh_dim) {
      if (!spec.placement(mesh_dim).is_shard(static_cast<std::int64_t>(dim))) continue;
      const std::int64_t size = spec.layout()->size(mesh_dim);
      index = index * size + coordinate[mesh_dim];
      count *= size;
      first = chunk_of(spec.shape()[dim], size, 0).size;
    }
    shard_index =
        shard_index * static_cast<std::uint64_t>(count) + static_cast<std::uint64_t>(index);
    first_shard *= static_cast<std::uint64_t>(first);
  }
  return {.start = offset + round_up_to_4(shard_index * first_shard),
          .end = offset + round_up_to_4(static_cast<std::uint64_t>(spec.numel()))};
}

}  // namespace shardlab
