// local_shape.h - ownership: sizes, offsets and index maps of pieces (K-1, K-2, K-19). Pure.
#pragma once

#include <cstdint>

#include "mesh/spec.h"
#include "tensor/local_view.h"

namespace shardlab {

/// The piece of a tensor dim. Both fields count elements, not bytes.
struct Chunk {
  std::int64_t size;
  std::int64_t offset;
  bool operator==(const Chunk&) const = default;
};

/// The piece of a tensor dim of `length` elements that coordinate `index` of `count` holds:
/// ceil-sized chunks, so trailing ones may be short or empty (L = 5 on n = 4: 2, 2, 1, 0).
///   fails   Value: index outside [0, count), or length < 0
///   source  K-1; table W-1
Chunk chunk_of(std::int64_t length, std::int64_t count, std::int64_t index);

/// Local shape of a rank's piece; its other dims keep their size when a shard is empty. Nested cuts
/// follow the spec's order: a later cut acts on the earlier one's local size.
Dims local_shape(const DTensorSpec& spec, const Coordinate& coordinate);
/// Offset of the piece in the global tensor, per dim. An empty shard's offset is the global size.
/// For strided shards that own several runs: the first index.
Dims local_offset(const DTensorSpec& spec, const Coordinate& coordinate);
/// Local shape and offset of one tensor dim; cheaper than both of the above.
Chunk local_chunk(const DTensorSpec& spec, const Coordinate& coordinate, std::size_t tensor_dim);
/// Lengths of the pieces of a tensor dim along one mesh dim, at place 0 of the others.
std::vector<std::int64_t> lengths_along(const DTensorSpec& spec, std::size_t mesh_dim,
                                        std::size_t tensor_dim);
/// Strides of a local tensor whose dims are in memory in the order of the global strides.
Dims local_stride(const DTensorSpec& spec, const Coordinate& coordinate);
TensorMeta local_meta(const DTensorSpec& spec, const Coordinate& coordinate);
/// The global meta when all pieces are even and have this meta: sharded dims times the mesh dim's
/// size, and the strides of the dims outside of them times the same factor.
TensorMeta global_meta(const MeshLayout& layout, const Placements& placements,
                       const TensorMeta& local);
/// Global index runs per tensor dim.
LocalView local_view(const DTensorSpec& spec, const Coordinate& coordinate);
/// Index runs of one tensor dim of `length` elements cut by `cuts`, first cut first.
struct Cut {
  Placement placement;
  std::int64_t count;  ///< size of the mesh dim
  std::int64_t index;  ///< coordinate on it
};
DimMap dim_map(std::int64_t length, std::span<const Cut> cuts);
/// The cuts that mesh dims make in one tensor dim, first cut first, at one coordinate.
InlineVector<Cut, 4> cuts_of(const MeshLayout& layout, const Placements& placements,
                             const ShardOrder& order, std::int64_t tensor_dim,
                             const Coordinate& coordinate);
/// True when every rank owns the same elements of a tensor dim of `length` under strided shards as
/// under the order that they mean (decode_strided). Both give each element to one piece: only the
/// pieces that hold an element under `ordered`, whose shards are plain, are compared.
bool same_pieces(const MeshLayout& layout, const OrderedPlacements& strided,
                 const OrderedPlacements& ordered, std::int64_t tensor_dim, std::int64_t length);

}  // namespace shardlab
