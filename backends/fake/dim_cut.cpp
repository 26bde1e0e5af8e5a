// The length of a piece falls with the index by the chunk rule, so that the places where it changes
// are found by halving, in O(changes log n) per cut and not O(n): most cuts have one or two.
#include "backends/fake/dim_cut.h"

#include <algorithm>

namespace shardlab::fake {

namespace {

// The first index whose piece is shorter than that of `index`; `count` when there is none.
std::int64_t next_change(std::int64_t length, const CutStep& step, std::int64_t index) {
  const std::int64_t size = piece_length(length, step, index);
  std::int64_t low = index + 1, high = step.count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (piece_length(length, step, middle) == size) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

std::int64_t piece_length(std::int64_t length, const CutStep& step, std::int64_t index) {
  if (step.split_factor == 0) return chunk_of(length, step.count, index).size;
  const std::int64_t whole = chunk_of(length, step.split_factor, 0).size;
  if (whole == 0) return 0;
  return length / whole * chunk_of(whole, step.count, index).size +
         chunk_of(length % whole, step.count, index).size;
}

std::int64_t piece_length(const DimCut& cut, const Coordinate& coordinate) {
  std::int64_t length = cut.length;
  for (const CutStep& step : cut.steps) {
    length = piece_length(length, step, coordinate[step.mesh_dim]);
  }
  return length;
}

std::vector<DimCut> cuts_of(const MeshLayout& layout, const Dims& shape,
                            const Placements& placements, const ShardOrder& order,
                            const std::vector<std::size_t>& mesh_dims) {
  std::vector<DimCut> cuts;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    DimCut cut{shape[dim], {}};
    for (const std::size_t mesh_dim :
         cutting_order(placements, order, static_cast<std::int64_t>(dim))) {
      const Placement& placement = placements[mesh_dim];
      cut.steps.push_back({mesh_dims[mesh_dim], layout.size(mesh_dim),
                           placement.is_strided_shard() ? placement.split_factor : 0});
    }
    if (!cut.steps.empty()) cuts.push_back(std::move(cut));
  }
  return cuts;
}

std::vector<CutPlace> places_of(const DimCut& cut) {
  std::vector<CutPlace> places;
  std::vector<std::int64_t> lengths = {cut.length};
  for (const CutStep& step : cut.steps) {
    std::vector<std::int64_t> pieces;
    for (const std::int64_t length : lengths) {
      for (std::int64_t index = 0; index < step.count; index = next_change(length, step, index)) {
        if (index > 0) places.push_back({step.mesh_dim, index});
        pieces.push_back(piece_length(length, step, index));
      }
    }
    std::sort(pieces.begin(), pieces.end());
    pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
    lengths = std::move(pieces);
  }
  return places;
}

}  // namespace shardlab::fake
