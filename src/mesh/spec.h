// spec.h - DTensorSpec: which piece of which global tensor each rank holds (M-8, M-16). Immutable,
// interned in an Arena, holds no coordinate and no communicator; equality is pointer equality.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "mesh/mesh_layout.h"
#include "mesh/shard_order.h"
#include "tensor/tensor.h"

namespace shardlab {

/// The meaning of the strided shards of a spec.
enum class StridedShards : std::uint8_t {
  kOrder,   ///< a cutting order, written as placements, as users give it (M-12, K-19)
  kPieces,  ///< pieces that a view left on each rank, cut in mesh order; no order is meant
};

/// A layout, one placement per mesh dim, the order in which mesh dims cut (M-9), and the global
/// metadata. Made by Arena::spec and valid: its holders need not check it. Lives as long as its
/// arena.
class DTensorSpec {
 public:
  /// The mesh, in the arena of this spec.
  const MeshLayout* layout() const { return layout_; }
  const Placements& placements() const { return placements_; }
  const Placement& placement(std::size_t mesh_dim) const { return placements_[mesh_dim]; }
  /// Per mesh dim, its place among the cuts of its tensor dim; -1 where it does not shard.
  const ShardOrder& order() const { return order_; }
  /// M-10.
  bool has_default_order() const { return default_order_; }
  /// Shape, stride and dtype of the whole tensor.
  const TensorMeta& meta() const { return meta_; }
  const Dims& shape() const { return meta_.shape; }
  const Dims& stride() const { return meta_.stride; }
  DType dtype() const { return meta_.dtype; }
  std::size_t ndim() const { return meta_.shape.size(); }
  std::int64_t numel() const { return product(meta_.shape); }

  /// M-13: product of the sizes of sharding mesh dims.
  std::int64_t num_shards() const { return num_shards_; }
  /// Every placement is R.
  bool is_replicated() const { return replicated_; }
  /// Some placement cuts, plain or strided.
  bool is_sharded() const { return sharded_; }
  bool has_partial() const { return partial_; }
  bool has_strided() const { return strided_; }
  /// kOrder where there are none.
  StridedShards strided() const { return strided_shards_; }
  /// Some placement is strided and means an order.
  bool has_strided_order() const { return strided_ && strided_shards_ == StridedShards::kOrder; }
  std::uint64_t hash() const { return hash_; }

  Arena& arena() const { return layout_->arena(); }
  /// Same layout and meta, other placements (default order). Strided shards mean what they did in
  /// all specs that are made of this one.
  const DTensorSpec* with(const Placements& placements) const;
  /// The same with a given order.
  const DTensorSpec* with(const Placements& placements, const ShardOrder& order) const;
  /// The same placements and order on another tensor, for example of another dtype.
  const DTensorSpec* with(const TensorMeta& meta) const;
  /// The same placements with another meaning of their strided shards.
  const DTensorSpec* with(StridedShards strided) const;
  /// The same pieces as `other`, whatever its strided shards mean: nothing moves.
  bool same_pieces(const DTensorSpec& other) const;

 private:
  friend class Arena;
  DTensorSpec(const MeshLayout* layout, Placements placements, ShardOrder order, TensorMeta meta,
              StridedShards strided, std::uint64_t hash);

  // All of it is fixed when the spec is interned; flags below are read off the placements.
  const MeshLayout* layout_;
  Placements placements_;
  ShardOrder order_;
  TensorMeta meta_;
  std::uint64_t hash_;
  std::int64_t num_shards_ = 1;
  bool default_order_ = true, replicated_ = true, sharded_ = false, partial_ = false,
       strided_ = false;
  StridedShards strided_shards_;
};

/// Owns layouts and specs. One per process normally (process_arena); tests and fuzzers use their
/// own and drop it with everything in it. Interning takes a lock per bucket; reading takes none.
class Arena {
 public:
  Arena();
  ~Arena();
  Arena& operator=(Arena&&) = delete;

  /// Fails with Value: a size of 0, duplicate or negative ranks, wrong number of ranks; with
  /// Runtime: a negative size, wrong number of names, duplicate names.
  const MeshLayout* layout(MeshLayout::Init init);
  /// `placements` has one entry per mesh dim. Fails with Value for a wrong count, a shard dim
  /// outside the tensor, mixed kinds of partial, strided shards with an order other
  /// than the default; with Internal for an invalid order or a negative shard dim (M-11:
  /// normalize_dims first).
  const DTensorSpec* spec(const MeshLayout* layout, const Placements& placements,
                          const TensorMeta& meta);
  const DTensorSpec* spec(const MeshLayout* layout, const Placements& placements,
                          const ShardOrder& order, const TensorMeta& meta,
                          StridedShards strided = StridedShards::kOrder);

  /// All specs interned so far, in no order.
  void visit_specs(const std::function<void(const DTensorSpec&)>& visit) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The arena of the process.
Arena& process_arena();

}  // namespace shardlab
