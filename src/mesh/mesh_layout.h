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

class MeshLayout;

/// Position of a rank in a mesh, one entry per mesh dim. It carries its mesh, and arithmetic on
/// layouts and pieces refuses a coordinate of another one (Internal).
class Coordinate : public InlineVector<std::int64_t, 4> {
 public:
  using InlineVector<std::int64_t, 4>::InlineVector;
  Coordinate() = default;
  const MeshLayout* mesh = nullptr;  ///< null: written by hand, for whichever mesh it is used on
};

/// `size` places that are `stride` apart in the row-major order of a root mesh.
struct MeshStep {
  std::int64_t size;
  std::int64_t stride;
  bool operator==(const MeshStep&) const = default;
};
/// The places along one mesh dim, outermost step first. Normal form: no step of size 1, and no two
/// that are one.
using MeshSteps = InlineVector<MeshStep, 2>;

/// "{x:2, y:3}" of as many names as sizes.
std::string text_of_mesh_dims(std::span<const std::string> names, const Dims& shape);

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

  /// The ranks that this mesh was cut from, as a mesh of one dim without a name; itself if it was
  /// not cut, or kept all of them in their order. Meshes of equal ranks, shape and names that were
  /// cut from other ranks are not equal.
  const MeshLayout* root() const;
  /// False if it is its own root.
  bool is_cut() const { return root_ != nullptr; }
  /// The places along `mesh_dim` in root().
  MeshSteps steps(std::size_t mesh_dim) const;

  /// Fails with Internal for a coordinate of another mesh.
  void check_own(const Coordinate& coordinate) const {
    if (coordinate.mesh != nullptr && coordinate.mesh != this) [[unlikely]]
      refuse(coordinate);
  }

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
    std::vector<std::string> names;     ///< empty: unnamed
    std::vector<std::int64_t> ranks;    ///< row-major; empty: 0, 1, 2, ...
    const MeshLayout* root = nullptr;   ///< null: itself
    std::vector<MeshSteps> steps = {};  ///< in `root`, by dim; empty without one
  };

 private:
  friend class Arena;
  MeshLayout(Arena* arena, Init init, std::uint64_t hash);
  [[noreturn]] void refuse(const Coordinate& coordinate) const;

  Arena* arena_;
  Dims shape_;
  std::vector<std::string> names_;
  bool named_ = false;
  std::vector<std::int64_t> ranks_;
  std::vector<std::pair<std::int64_t, std::int64_t>> index_by_rank_;  // sorted; empty for iota
  std::int64_t size_ = 1;
  std::uint64_t hash_ = 0;
  const MeshLayout* root_ = nullptr;  // null: itself
  std::vector<MeshSteps> steps_;      // in root_
};

}  // namespace shardlab
