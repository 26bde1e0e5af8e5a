// Blocks of a drawing are the intervals between all places at which some rank's run begins or ends:
// inside of a block the owners are the same, so that a drawing's size follows the number of
// different cuts and not that of elements. Totals count ranks by the shape of their pieces, in
// O(ranks).
#include "sim/report/holdings.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "mesh/local_shape.h"

namespace shardlab {
namespace {

/// The places at which runs of all ranks begin and end in one dim, with 0 and the size.
std::vector<std::int64_t> starts_of(const std::vector<Holding>& holdings, std::size_t dim,
                                    std::int64_t size) {
  std::vector<std::int64_t> starts{0, size};
  for (const Holding& holding : holdings) {
    for (const IndexRun& run : holding.view.dims[dim].runs) {
      starts.push_back(run.offset);
      starts.push_back(run.offset + run.size);
    }
  }
  std::ranges::sort(starts);
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

/// The blocks of a dim that a piece holds.
std::vector<std::size_t> blocks_of(const std::vector<std::int64_t>& starts, const DimMap& map) {
  std::vector<std::size_t> blocks;
  for (const IndexRun& run : map.runs) {
    const auto first = std::ranges::lower_bound(starts, run.offset);
    for (auto start = first; *start < run.offset + run.size; ++start) {
      blocks.push_back(static_cast<std::size_t>(start - starts.begin()));
    }
  }
  return blocks;
}

}  // namespace

Holding holding_at(const DTensorSpec& spec, std::int64_t row_major_index) {
  const MeshLayout& layout = *spec.layout();
  Holding holding;
  holding.rank = layout.rank_at_index(row_major_index);
  holding.coordinate = layout.coordinate_at_index(row_major_index);
  holding.shape = local_shape(spec, holding.coordinate);
  holding.offset = local_offset(spec, holding.coordinate);
  holding.view = local_view(spec, holding.coordinate);
  holding.elements = product(holding.shape);
  holding.bytes = holding.elements * item_bytes(spec.dtype());
  return holding;
}

double HoldingTotals::imbalance(std::int64_t ranks) const {
  if (elements == 0) return 1.0;
  return static_cast<double>(largest) * static_cast<double>(ranks) / static_cast<double>(elements);
}

HoldingTotals totals_of(const DTensorSpec& spec) {
  constexpr std::int64_t kMaxRanks = 1 << 24;
  if (spec.layout()->size() > kMaxRanks) {
    fail(Fix{"show a smaller mesh: its pieces are cut the same way"},
         "the mesh has {} ranks; at most {} can be shown", spec.layout()->size(), kMaxRanks);
  }
  HoldingTotals totals;
  std::map<std::vector<std::int64_t>, std::int64_t> counts;
  for (std::int64_t index = 0; index < spec.layout()->size(); ++index) {
    const Dims shape = local_shape(spec, spec.layout()->coordinate_at_index(index));
    ++counts[{shape.begin(), shape.end()}];
  }
  for (auto row = counts.rbegin(); row != counts.rend(); ++row) {
    totals.shapes.push_back({product(row->first), Dims(row->first), row->second});
  }
  std::ranges::stable_sort(totals.shapes,
                           [](const auto& a, const auto& b) { return a.elements > b.elements; });
  for (const auto& row : totals.shapes) {
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(row.elements, row.ranks * item_bytes(spec.dtype()), &bytes) ||
        __builtin_add_overflow(totals.bytes, bytes, &totals.bytes)) {
      fail(Fix{"use smaller sizes or fewer ranks"}, "all ranks together hold more than 2^63 bytes");
    }
    totals.elements += row.elements * row.ranks;
    if (row.elements == 0) totals.empty_ranks += row.ranks;
  }
  totals.largest = totals.shapes.front().elements;
  totals.smallest = totals.shapes.back().elements;
  return totals;
}

OwnerGrid owner_grid(const DTensorSpec& spec) {
  std::vector<Holding> holdings;
  for (std::int64_t index = 0; index < spec.layout()->size(); ++index) {
    holdings.push_back(holding_at(spec, index));
  }
  return owner_grid(spec.shape(), holdings);
}

OwnerGrid owner_grid(const Dims& shape, const std::vector<Holding>& holdings) {
  OwnerGrid grid;
  const std::size_t columns = shape.size() - 1;
  grid.row_starts =
      columns == 0 ? std::vector<std::int64_t>{0, 1} : starts_of(holdings, 0, shape[0]);
  grid.column_starts = starts_of(holdings, columns, shape[columns]);
  grid.owners.assign(grid.row_starts.size() - 1,
                     std::vector<Owners>(grid.column_starts.size() - 1));
  const DimMap whole{{{0, 1}}};
  for (const Holding& holding : holdings) {
    const auto rows = blocks_of(grid.row_starts, columns == 0 ? whole : holding.view.dims[0]);
    for (const std::size_t column : blocks_of(grid.column_starts, holding.view.dims[columns])) {
      for (const std::size_t row : rows) grid.owners[row][column].push_back(holding.rank);
    }
  }
  return grid;
}

std::string owners_text(const DTensorSpec& spec, const Owners& owners) {
  if (!spec.has_partial()) return rank_ranges(owners);
  // Ranks that differ only in partial mesh dims hold terms of one sum.
  std::map<std::vector<std::int64_t>, Owners> terms;
  for (const std::int64_t rank : owners) {
    const Coordinate coordinate = *spec.layout()->coordinate_of(rank);
    std::vector<std::int64_t> replica;
    for (std::size_t mesh_dim = 0; mesh_dim < coordinate.size(); ++mesh_dim) {
      if (!spec.placement(mesh_dim).is_partial()) replica.push_back(coordinate[mesh_dim]);
    }
    terms[replica].push_back(rank);
  }
  std::vector<std::string> texts;
  for (const auto& [replica, ranks] : terms) texts.push_back(text_of_list(ranks, "+"));
  return text_of_list(texts, ",");
}

}  // namespace shardlab
