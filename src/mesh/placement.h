// placement.h - the way one mesh dim holds one tensor (M-4, M-5).
// A tensor has one Placement per mesh dim. Small values, safe to share between threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/inline_vector.h"
#include "base/reduce_op.h"

namespace shardlab {

/// The six ways in which the ranks along a mesh dim can hold a tensor.
enum class PlacementKind : std::uint8_t {
  kReplicate,     ///< every rank along the mesh dim holds the whole tensor
  kShard,         ///< tensor dim `dim` is cut by the chunk rule (K-1)
  kStridedShard,  ///< cut as if `split_factor` chunks were cut first (K-19)
  kPartial,       ///< every rank holds a full-size term; the value is their `op` reduction
  kNormPartial,   ///< every rank holds the n-norm of its shard; combining needs the n-norm again
  kMaskPartial,   ///< row-sharded lookups: terms valid only under a mask held with the tensor
                  ///< (K-18)
};

/// Interned shape of the table behind a mask partial; ids are equal for equal shapes.
using MaskShapeId = std::int32_t;
/// Thread-safe. Ids belong to the process and must not be sent to another one.
MaskShapeId intern_mask_shape(std::span<const std::int64_t> shape);
/// The shape behind an id; none for -1.
Dims mask_shape(MaskShapeId id);

/// The way one mesh dim holds a tensor. Fields that a kind does not use keep their defaults, so
/// that equality is that of the members.
struct Placement {
  PlacementKind kind = PlacementKind::kReplicate;
  ReduceOp op = ReduceOp::kSum;   ///< partials
  std::int32_t dim = 0;           ///< shards; mask partials: the sharded dim of the table
  std::int64_t split_factor = 1;  ///< strided shards
  double norm = 0;                ///< norm partials
  MaskShapeId mask = -1;          ///< mask partials

  /// Dims count from 0 or, before normalize_dims(), from the end.
  static Placement replicate() { return {}; }
  static Placement shard(std::int64_t tensor_dim) {
    Placement p;
    p.kind = PlacementKind::kShard;
    p.dim = static_cast<std::int32_t>(tensor_dim);
    return p;
  }
  /// The chunk rule after a cut into `factor` chunks: the first of two mesh dims that cut a dim
  /// sees it this way (K-19).
  static Placement strided_shard(std::int64_t tensor_dim, std::int64_t factor) {
    Placement p = shard(tensor_dim);
    p.kind = PlacementKind::kStridedShard;
    p.split_factor = factor;
    return p;
  }
  /// A term of a reduction that is still pending.
  static Placement partial(ReduceOp reduce_op = ReduceOp::kSum) {
    Placement p;
    p.kind = PlacementKind::kPartial;
    p.op = reduce_op;
    return p;
  }
  /// The n-norm of a piece; norms combine as (sum of n-th powers)^(1/n).
  static Placement norm_partial(double n) {
    Placement p;
    p.kind = PlacementKind::kNormPartial;
    p.norm = n;
    return p;
  }
  /// A term of a lookup in a table of this shape, which is cut along `table_dim`.
  static Placement mask_partial(ReduceOp reduce_op, MaskShapeId shape, std::int64_t table_dim) {
    Placement p;
    p.kind = PlacementKind::kMaskPartial;
    p.op = reduce_op;
    p.mask = shape;
    p.dim = static_cast<std::int32_t>(table_dim);
    return p;
  }

  /// Every rank along the mesh dim holds the whole.
  bool is_replicate() const { return kind == PlacementKind::kReplicate; }
  /// A plain or strided shard.
  bool is_shard() const {
    return kind == PlacementKind::kShard || kind == PlacementKind::kStridedShard;
  }
  /// Whether it cuts this tensor dim.
  bool is_shard(std::int64_t tensor_dim) const { return is_shard() && dim == tensor_dim; }
  /// Whether the chunk rule of K-1 cuts it.
  bool is_plain_shard() const { return kind == PlacementKind::kShard; }
  /// Whether the rule of K-19 cuts it.
  bool is_strided_shard() const { return kind == PlacementKind::kStridedShard; }
  /// Any kind of partial.
  bool is_partial() const { return kind >= PlacementKind::kPartial; }
  /// A plain partial of this reduction.
  bool is_partial(ReduceOp reduce_op) const {
    return kind == PlacementKind::kPartial && op == reduce_op;
  }
  /// Kind and every parameter: SS(0, 1) cuts as S(0) does and yet differs from it.
  bool operator==(const Placement&) const = default;
};

/// One per mesh dim, mesh dim 0 first.
using Placements = InlineVector<Placement, 4>;

/// Stable within a process; equal for equal placements.
std::uint64_t hash_of(const Placement& placement);
/// True when both may be partial in one spec: the same partial, or sum with avg (X-41).
bool may_mix(const Placement& a, const Placement& b);

/// Every pending reduction replaced by R: the placements of its result, or of a gradient.
Placements without_partials(Placements placements);

/// Shard dims counted from the end (-1: the last) become dims from the start: placements that users
/// write are normalised with this before a spec is made (M-11). Fails with Value when there is no
/// such dim.
void normalize_dims(Placements& placements, std::size_t ndim);

/// "R", "S(0)", "SS(0,2)", "P(sum)", "NP(2)", "MP(sum,16x8,0)".
std::string to_string(const Placement& placement);
/// Concatenated in mesh order: "S(0)R" (M-5).
std::string to_string(const Placements& placements);
/// Also reads "_S(d, f)", "_NormP(n)" and a bare "MP" (of an unknown table). Empty when malformed.
std::optional<Placement> parse_placement(std::string_view text);

}  // namespace shardlab
