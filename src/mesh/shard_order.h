// shard_order.h - in which order mesh dims cut a tensor dim (M-9 to M-12).
#pragma once

#include <optional>
#include <string>

#include "base/inline_vector.h"
#include "mesh/placement.h"

namespace shardlab {

/// Position of every sharding mesh dim in the cutting sequence of its tensor dim: 0 cuts first; -1
/// for mesh dims that do not shard. This is the flat form of "tensor dim -> mesh dims in order",
/// one entry per mesh dim, so it compares, hashes and copies like a shape.
using ShardOrder = InlineVector<std::int32_t, 4>;

/// Mesh dims ascending within each tensor dim (M-9). Strided shards count as shards.
ShardOrder default_order(const Placements& placements);
/// M-10: within each tensor dim the mesh dims strictly increase.
bool is_default_order(const Placements& placements, const ShardOrder& order);
/// Mesh dims that shard `tensor_dim`, first cut first.
InlineVector<std::size_t, 4> cutting_order(const Placements& placements, const ShardOrder& order,
                                           std::int64_t tensor_dim);
/// Fails with Internal (M-11) unless every sharding mesh dim has exactly one place 0..k-1 in its
/// dim.
void check_order(const Placements& placements, const ShardOrder& order);

/// M-12: "S(0)[1]P(max)S(0)[0]"; the suffix only where a tensor dim is cut twice or more, and never
/// next to strided shards.
std::string order_text(const Placements& placements, const ShardOrder& order);

/// Strided shards that mean an order, decoded (layout README): placements with plain shards and the
/// order, or empty when no order produces them.
struct OrderedPlacements {
  Placements placements;
  ShardOrder order;
};
std::optional<OrderedPlacements> decode_strided(const Placements& placements,
                                                const Dims& mesh_shape);
/// The strided form of an order: split factor = product of sizes of mesh dims cut earlier but later
/// in the mesh; factor 1 stays a plain shard.
Placements encode_strided(const Placements& placements, const ShardOrder& order,
                          const Dims& mesh_shape);

}  // namespace shardlab
