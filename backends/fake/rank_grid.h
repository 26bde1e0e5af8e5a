// rank_grid.h - the ranks of a world in cells whose ranks behave the same: on each mesh dim
// coordinates fall into parts, and a cell is one part of each. Cells are refined, never merged;
// nothing is kept per rank or coordinate, only runs of coordinates of each mesh dim.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/text.h"
#include "mesh/local_shape.h"

namespace shardlab::fake {

// The length of a rank's piece of one tensor dim, and the places on a mesh dim where it
// changes. Pure arithmetic: it separates the ranks of a shape-only mesh.

/// One cut of a tensor dim over the ranks of a mesh dim.
struct CutStep {
  std::size_t mesh_dim = 0;
  std::int64_t count = 1;         ///< ranks along it
  std::int64_t split_factor = 0;  ///< strided shards; 0: a plain one
  auto operator<=>(const CutStep&) const = default;
};

/// A tensor dim of `length` elements, first cut first.
struct DimCut {
  std::int64_t length = 0;
  std::vector<CutStep> steps;
  auto operator<=>(const DimCut&) const = default;
};

/// Elements of the piece at `index`. Does not grow with the index. K-1, K-19.
std::int64_t piece_length(std::int64_t length, const CutStep& step, std::int64_t index);
/// Elements of the piece at `coordinate`.
std::int64_t piece_length(const DimCut& cut, const Coordinate& coordinate);

/// The cuts of a tensor: one for each dim that is cut at all. `mesh_dims[i]` represents the
/// layout's mesh dim i.
std::vector<DimCut> cuts_of(const MeshLayout& layout, const Dims& shape,
                            const Placements& placements, const ShardOrder& order,
                            const std::vector<std::size_t>& mesh_dims);

/// A coordinate of a mesh dim at which pieces get shorter.
struct CutPlace {
  std::size_t mesh_dim = 0;
  std::int64_t coordinate = 0;
};
/// Between these places all ranks have pieces of one length. May hold doubles.
std::vector<CutPlace> places_of(const DimCut& cut);

/// Used by one thread.
class RankGrid {
 public:
  /// One cell for the ranks of `layout`, and one for those outside, if there are any. Both have
  /// tag 0. Fails with Unsupported for more than 2^31 - 1 ranks.
  RankGrid(const MeshLayout& layout, std::int64_t world_size);

  const MeshLayout& layout() const { return *layout_; }
  std::int64_t world_size() const { return world_size_; }

  /// Those inside of the mesh are first.
  std::size_t cell_count() const { return tags_.size(); }
  bool inside(std::size_t cell) const { return cell < inside_cells_; }
  std::int64_t size(std::size_t cell) const;
  /// The coordinate of its rank with the smallest index in the mesh. Inside only.
  Coordinate first_coordinate(std::size_t cell) const;
  std::int64_t first_rank(std::size_t cell) const;
  /// Ranks of all cells for which `wanted(cell)` holds, ascending. Visits these ranks.
  std::vector<std::int64_t> ranks(const std::function<bool(std::size_t cell)>& wanted) const;
  /// The place of the cells with this tag: "dp 0-7, tp 0-63" when all such coordinates are theirs,
  /// else "ranks 0-3,8"; long lists end in "...". Empty when they are all ranks of the mesh.
  std::string where(int tag) const;
  std::size_t cell_at(const Coordinate& coordinate) const;

  /// The cells on a line along `mesh_dims` through `cell`, in the order of their first coordinates;
  /// inside only.
  std::vector<std::size_t> line(std::size_t cell, std::vector<std::size_t> mesh_dims) const;

  /// A number of the user's for each cell; parts of a cell inherit it.
  int tag(std::size_t cell) const { return tags_[cell]; }
  void set_tag(std::size_t cell, int tag) { tags_[cell] = tag; }

  /// At these coordinates ranks begin to differ from those before.
  void cut(const std::vector<CutPlace>& places);
  /// Puts ranks with different answers into different cells, as far as `asked(cell)` holds.
  void split(const std::function<std::uint64_t(std::int64_t rank)>& answer,
             const std::function<bool(std::size_t cell)>& asked);

 private:
  /// Coordinates of one mesh dim, or, for the last axis, ranks outside of the mesh.
  struct Axis {
    std::vector<std::int64_t> ends;     ///< of runs of coordinates, ascending
    std::vector<std::int32_t> part_of;  ///< by run
    std::vector<std::int64_t> sizes;    ///< by part
    std::vector<std::int64_t> firsts;   ///< by part

    std::int64_t count() const { return ends.empty() ? 0 : ends.back(); }
    std::int64_t begin(std::size_t run) const { return run == 0 ? 0 : ends[run - 1]; }
    std::size_t run_of(std::int64_t coordinate) const {
      return static_cast<std::size_t>(std::ranges::upper_bound(ends, coordinate) - ends.begin());
    }
    std::vector<std::vector<std::int64_t>> coordinates() const;  ///< by part
  };
  /// Ends of runs of coordinates, each with the label of its coordinates.
  using Labels = std::vector<std::pair<std::int64_t, std::uint64_t>>;
  static Labels runs_of(const std::vector<std::uint64_t>& labels);
  /// New parts by (old part, label), and the old part of each.
  static std::vector<std::int32_t> relabel(Axis& axis, const Labels& labels);
  /// So many of its ranks that a text of more would be cut.
  RankRanges ranges_of(int tag) const;
  void rebuild_tags(const std::vector<std::vector<std::int32_t>>& origins);
  std::vector<std::size_t> parts_of(std::size_t cell) const;
  std::size_t cell_of_parts(const std::vector<std::size_t>& parts) const;
  std::int64_t outsider(std::int64_t index) const;
  /// The ranks of these cells that are inside of the mesh, by cell.
  void for_each_inside(
      const std::vector<bool>& cells,
      const std::function<void(std::int64_t index, const Coordinate&)>& visit) const;

  const MeshLayout* layout_;
  std::int64_t world_size_;
  std::vector<std::int64_t> outsiders_;  ///< of an array with any ranks; empty where they are last
  std::vector<Axis> axes_;               ///< one per mesh dim
  Axis outside_;
  std::size_t inside_cells_ = 1;
  std::vector<int> tags_;  ///< by cell
};

}  // namespace shardlab::fake
