// dim_cut.h - the length of a rank's piece of one tensor dim, and the places on a mesh dim where it
// changes. Pure arithmetic: it separates the ranks of a shape-only mesh.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "mesh/local_shape.h"

namespace shardlab::fake {

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

}  // namespace shardlab::fake
