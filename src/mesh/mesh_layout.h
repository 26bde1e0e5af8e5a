// mesh_layout.h - an n-d array of global ranks with dim names (M-6, M-7), equal on every rank.
// Immutable and interned in an Arena: pointers compare equal exactly when layouts do. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/inline_vector.h"

namespace shardlab {

/// Dims that a mesh has at most: the search space of planners grows fourfold with each.
inline constexpr std::size_t kMostMeshDims = 8;

class Arena;

/// Position of a rank in a mesh, one entry per mesh dim.
using Coordinate = InlineVector<std::int64_t, 4>;

/// The global rank at each coordinate. It contains nothing about this process: the coordinate of
/// the running rank is in DeviceMesh.
class MeshLayout {
 public:
  /// Number of mesh dims.
  std::size_t ndim() const { return shape_.size(); }
  const Dims& shape() const { return shape_; }
  /// Number of ranks.
  std::int64_t size() const { return size_; }
  /// Ranks along one mesh dim.
  std::int64_t size(std::size_t mesh_dim) const { return shape_[mesh_dim]; }
  /// Names; m0, m1, ... where the user gave none.
  const std::vector<std::string>& names() const { return names_; }
  /// False where names() were made up.
  bool named() const { return named_; }
  /// Index of a mesh dim by name, or empty.
  std::optional<std::size_t> find_dim(std::string_view name) const;

  /// The global rank at a coordinate.
  std::int64_t rank_at(const Coordinate& coordinate) const;
  std::int64_t rank_at_index(std::int64_t row_major_index) const;
  /// Empty when the rank is not in the array.
  std::optional<Coordinate> coordinate_of(std::int64_t rank) const;
  Coordinate coordinate_at_index(std::int64_t row_major_index) const;
  /// Row-major index of a coordinate; the inverse of coordinate_at_index().
  std::int64_t index_of(const Coordinate& coordinate) const;

  /// Global ranks of the group along `mesh_dim` through `coordinate`, in coordinate order: the
  /// array's order rules, also when it does not ascend.
  std::vector<std::int64_t> group_ranks(std::size_t mesh_dim, const Coordinate& coordinate) const;
  /// The same for several dims merged, row-major over `mesh_dims` in the given order.
  std::vector<std::int64_t> group_ranks(std::span<const std::size_t> mesh_dims,
                                        const Coordinate& coordinate) const;

  /// The group along `mesh_dim` that holds `rank`. Fails with Value for a rank outside.
  std::vector<std::int64_t> group_of(std::size_t mesh_dim, std::int64_t rank) const;

  /// True when rank_at_index(i) == i: nothing is stored per rank.
  bool is_iota() const { return ranks_.empty(); }
  /// The arena this layout lives in.
  Arena& arena() const { return *arena_; }
  /// Fails with Runtime when a world of `world_size` ranks has fewer ranks than the mesh, with
  /// Value when a rank of the mesh is beyond it.
  void check_fits(std::int64_t world_size) const;
  /// "{x:2, y:3}".
  std::string text() const;
  std::uint64_t hash() const { return hash_; }

  /// Layouts are made by Arena::layout.
  struct Init {
    Dims shape;
    std::vector<std::string> names;   ///< empty: unnamed
    std::vector<std::int64_t> ranks;  ///< row-major; empty: 0, 1, 2, ...
  };

 private:
  friend class Arena;
  MeshLayout(Arena* arena, Init init, std::uint64_t hash);

  Arena* arena_;
  Dims shape_;
  std::vector<std::string> names_;
  bool named_ = false;
  std::vector<std::int64_t> ranks_;
  std::vector<std::pair<std::int64_t, std::int64_t>> index_by_rank_;  // sorted; empty for iota
  std::int64_t size_ = 1;
  std::uint64_t hash_ = 0;
};

/// The part of `layout` along the named dims (in ascending dim order, else Value) that holds
/// `coordinate`; names that don't exist are Value naming the nearest. All dims: `layout` itself.
const MeshLayout* slice_layout(const MeshLayout* layout, std::span<const std::string> names,
                               const Coordinate& coordinate);
/// The same as `rank` sees it. Fails with Runtime for a rank outside when a dim is left out: no
/// part is its own.
const MeshLayout* slice_layout(const MeshLayout* layout, std::span<const std::string> names,
                               std::int64_t rank);
/// One dim over all of `names`' dims, order kept; named by joining with "_" unless `name` is given.
const MeshLayout* flatten_layout(const MeshLayout* layout, std::span<const std::string> names,
                                 const Coordinate& coordinate, std::string_view name);

/// The same as `rank` sees it; for a rank outside as slice_layout.
const MeshLayout* flatten_layout(const MeshLayout* layout, std::span<const std::string> names,
                                 std::int64_t rank, std::string_view name);

}  // namespace shardlab
