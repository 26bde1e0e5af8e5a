// holdings.h - the facts that `show` prints: pieces, sums over ranks, owners of every block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/spec.h"
#include "tensor/local_view.h"

namespace shardlab {

/// The piece of one rank.
struct Holding {
  std::int64_t rank;
  Coordinate coordinate;
  Dims shape, offset;
  LocalView view;
  std::int64_t elements, bytes;
};
/// The piece of the rank at this place of the mesh.
Holding holding_at(const DTensorSpec& spec, std::int64_t row_major_index);

/// Sums over all ranks of the mesh.
struct HoldingTotals {
  struct ShapeCount {
    std::int64_t elements;
    Dims shape;
    std::int64_t ranks;
  };
  std::vector<ShapeCount> shapes;  ///< largest first
  std::int64_t elements = 0;       ///< on all ranks together
  std::int64_t bytes = 0;          ///< the same
  std::int64_t largest = 0, smallest = 0;
  std::int64_t empty_ranks = 0;

  /// Largest piece over the mean piece; 1 when nothing is held.
  double imbalance(std::int64_t ranks) const;
};
/// Visits every rank. Fails with Value for meshes of more than 2^24 ranks and for sums beyond 2^63.
HoldingTotals totals_of(const DTensorSpec& spec);

/// Ranks that hold one block, in the array's order.
using Owners = std::vector<std::int64_t>;

/// A 1-d or 2-d tensor in blocks that one set of ranks holds: the runs of all pieces cut each dim
/// at `starts` (the last entry is the size). A 1-d tensor has one row.
struct OwnerGrid {
  std::vector<std::int64_t> row_starts, column_starts;
  std::vector<std::vector<Owners>> owners;  ///< [row block][column block]
};
/// In O(ranks x blocks). For tensors of 1 or 2 dims with elements.
OwnerGrid owner_grid(const DTensorSpec& spec);
/// The same of pieces that no spec gives: their rank and view count.
OwnerGrid owner_grid(const Dims& shape, const std::vector<Holding>& holdings);

/// "0,3" for replicas, "0+3" for terms of a pending reduction, "0+1,2+3" for replicas of terms.
/// Consecutive replicas fold: "0-3,8".
std::string owners_text(const DTensorSpec& spec, const Owners& owners);

}  // namespace shardlab
