// A spec as meanings of its mesh dims, a drawing of its holders, a table of pieces and totals. The
// drawing has a cell per element if that fits into the width, and else a cell per block of equal
// owners; parts that are left out are counted.
#include "sim/report/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/text.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "sim/report/grid.h"
#include "sim/report/holdings.h"
#include "sim/report/text_table.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMaxDrawnRanks = 4096;  // of a mesh whose tensor is drawn
constexpr std::int64_t kMaxCellRows = 32;      // of a drawing with a row per index
constexpr std::size_t kMaxBlockRows = 16;      // of one with a row per block
constexpr std::size_t kMaxLabel = 9;           // longer labels become letters with a legend

std::string bracketed(std::span<const std::int64_t> values) {
  return fmt::format("[{}]", text_of_list(values, ", "));
}

/// Whole numbers as they are, others with two decimals.
std::string number(double value) {
  return value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}", value);
}

// ---- the meaning of every mesh dim ----

/// "4 + 3", "2 + 2 + 1 + 0"; "31 of 4, 1 of 2" when there are many.
std::string pieces_text(std::int64_t length, std::int64_t count) {
  constexpr std::int64_t kListed = 8;
  std::vector<std::string> sizes;
  std::int64_t first = 0;  // of the pieces that are as large as this one
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t size = chunk_of(length, count, i).size;
    if (count <= kListed) {
      sizes.push_back(fmt::format("{}", size));
    } else if (i + 1 == count || chunk_of(length, count, i + 1).size != size) {
      sizes.push_back(fmt::format("{} of {}", i + 1 - first, size));
      first = i + 1;
    }
  }
  return text_of_list(sizes, count <= kListed ? " + " : ", ");
}

std::string shard_text(const DTensorSpec& spec, std::size_t mesh_dim) {
  const Placement& placement = spec.placement(mesh_dim);
  const std::int64_t count = spec.layout()->size(mesh_dim);
  const std::int64_t length = spec.shape()[static_cast<std::size_t>(placement.dim)];
  std::string text = fmt::format("cuts dim {} ", placement.dim);
  const auto sequence = cutting_order(spec.placements(), spec.order(), placement.dim);
  const auto place =
      static_cast<std::size_t>(std::ranges::find(sequence, mesh_dim) - sequence.begin());
  if (placement.is_strided_shard()) {
    text += fmt::format("in {} chunks, then each chunk in {}", placement.split_factor, count);
  } else if (place == 0) {
    text += fmt::format("of {} into {}", length, pieces_text(length, count));
  } else {
    text += fmt::format("again: each piece in {}", count);
  }
  if (place > 0) text += fmt::format(", after {}", spec.layout()->names()[sequence[place - 1]]);
  return text;
}

std::string meaning_text(const DTensorSpec& spec, std::size_t mesh_dim) {
  const Placement& placement = spec.placement(mesh_dim);
  switch (placement.kind) {
    case PlacementKind::kReplicate:
      return "replicas";
    case PlacementKind::kShard:
    case PlacementKind::kStridedShard:
      return shard_text(spec, mesh_dim);
    case PlacementKind::kPartial:
      return fmt::format("terms of a pending reduction: the value is their {}",
                         to_string(placement.op));
    case PlacementKind::kNormPartial:
      return fmt::format("norms of parts: the value is the {}-norm of them", placement.norm);
    case PlacementKind::kMaskPartial:
      return fmt::format("terms of a lookup in a sharded table: each row is valid on one rank");
  }
  return "?";
}

std::string meanings_text(const DTensorSpec& spec) {
  const auto& names = spec.layout()->names();
  std::vector<TableRow> rows;
  for (std::size_t dim = 0; dim < names.size(); ++dim) {
    rows.push_back({fmt::format("{}:{}", names[dim], spec.layout()->size(dim)),
                    to_string(spec.placement(dim)), meaning_text(spec, dim)});
  }
  return text_table(rows, "<", "  ");
}

// ---- the drawing ----

enum class Detail { kCells, kBlocks };

std::vector<GridLine> lines_of(const std::vector<std::int64_t>& starts, Detail detail) {
  std::vector<GridLine> lines;
  for (std::size_t block = 0; block + 1 < starts.size(); ++block) {
    const std::int64_t first = starts[block], last = starts[block + 1] - 1;
    if (detail == Detail::kBlocks) {
      lines.push_back(
          {first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last), block});
      continue;
    }
    for (std::int64_t i = first; i <= last; ++i) lines.push_back({fmt::format("{}", i), block});
  }
  return lines;
}

/// Keeps at most `count` lines: the first and the last ones with a mark between them. Returns how
/// many are left out.
std::size_t abridge(std::vector<GridLine>* lines, std::size_t count) {
  if (lines->size() <= count) return 0;
  const std::size_t kept = std::max<std::size_t>(count, 3) - 1, head = (kept + 1) / 2;
  const std::size_t left_out = lines->size() - kept;
  const auto from = lines->begin() + static_cast<std::ptrdiff_t>(head);
  lines->erase(from, from + static_cast<std::ptrdiff_t>(left_out - 1));
  (*lines)[head] = {"", (*lines)[head].block, true};
  return left_out;
}

/// Letters A, B, ..., Z, AA, ... instead of labels that are too long for a cell.
std::string letters(std::size_t index) {
  std::string text;
  for (++index; index > 0; index = (index - 1) / 26) {
    text.insert(text.begin(), static_cast<char>('A' + (index - 1) % 26));
  }
  return text;
}

/// Replaces all labels by letters when one is too long; returns the legend.
std::string shorten_labels(Grid* grid) {
  constexpr std::size_t kLegend = 64, kLongest = 80;
  bool long_label = false;
  for (const auto& row : grid->labels) {
    for (const std::string& label : row) long_label |= label.size() > kMaxLabel;
  }
  if (!long_label) return "";
  std::map<std::string, std::string> codes;
  std::string legend;
  for (auto& row : grid->labels) {
    for (std::string& label : row) {
      const auto [entry, fresh] = codes.emplace(label, letters(codes.size()));
      if (fresh && codes.size() <= kLegend) {
        const bool cut = label.size() > kLongest;
        legend += fmt::format("  {} = {}{}\n", entry->second, label.substr(0, kLongest),
                              cut ? "..." : "");
      }
      label = entry->second;
    }
  }
  if (codes.size() > kLegend) {
    legend += fmt::format("  ... {} more sets of ranks\n", codes.size() - kLegend);
  }
  return legend;
}

/// Cells of single elements if they fit, else blocks with the same owners.
void fill_lines(const OwnerGrid& owners, std::int64_t width, Grid* grid) {
  const bool few_rows = owners.row_starts.back() <= kMaxCellRows;
  grid->rows = lines_of(owners.row_starts, few_rows ? Detail::kCells : Detail::kBlocks);
  const bool few_columns = owners.column_starts.back() <= width;
  grid->columns = lines_of(owners.column_starts, few_columns ? Detail::kCells : Detail::kBlocks);
  if (few_columns && grid_width(*grid) > width) {
    grid->columns = lines_of(owners.column_starts, Detail::kBlocks);
  }
}

/// Leaves out blocks in the middle of a drawing that is too long; returns their number as text.
std::string abridge_grid(std::int64_t width, Grid* grid) {
  std::string text;
  if (static_cast<std::int64_t>(grid->rows.size()) > kMaxCellRows) {
    const std::size_t left_out = abridge(&grid->rows, kMaxBlockRows);
    text += fmt::format("  {} rows of blocks left out\n", left_out);
  }
  const auto columns = static_cast<std::int64_t>(grid->columns.size());
  if (grid_width(*grid) > width) {
    const std::int64_t each = (grid_width(*grid) + columns - 1) / columns;
    const std::size_t left_out =
        abridge(&grid->columns, static_cast<std::size_t>(std::max<std::int64_t>(width / each, 3)));
    if (left_out > 0) text += fmt::format("  {} columns of blocks left out\n", left_out);
  }
  return text;
}

std::string caption(const DTensorSpec& spec) {
  bool replicas = false;
  for (std::size_t dim = 0; dim < spec.placements().size(); ++dim) {
    replicas |= spec.placement(dim).is_replicate() && spec.layout()->size(dim) > 1;
  }
  return fmt::format("  a cell names the ranks that hold it{}{}\n",
                     spec.has_partial() ? "; 0+1: terms to be reduced" : "",
                     replicas ? "; 0,1 or 0-3: replicas" : "");
}

std::string draw_owners(const OwnerGrid& owners, std::size_t ndim,
                        const std::function<std::string(const Owners&)>& text,
                        const DrawOptions& options) {
  Grid grid;
  grid.row_title = ndim == 2 ? "dim 0" : "";
  grid.column_title = ndim == 2 ? "dim 1" : "dim 0";
  for (const auto& row : owners.owners) {
    auto& labels = grid.labels.emplace_back();
    for (const Owners& ranks : row) labels.push_back(text(ranks));
  }
  const std::string legend = shorten_labels(&grid);
  fill_lines(owners, options.width, &grid);
  if (ndim == 1) grid.rows[0].header = "";
  const std::string left_out = abridge_grid(options.width, &grid);
  return "\n" + draw_grid(grid, options.color) + legend + left_out;
}

std::string drawing_text(const DTensorSpec& spec, const DrawOptions& options) {
  if (spec.ndim() == 0) return "";
  if (spec.ndim() > 2) return "\n  not drawn: the tensor has more than 2 dims\n";
  if (spec.numel() == 0) return "\n  not drawn: the tensor has no elements\n";
  if (spec.layout()->size() > kMaxDrawnRanks) {
    return fmt::format("\n  not drawn: the mesh has more than {} ranks\n", kMaxDrawnRanks);
  }
  return draw_owners(
             owner_grid(spec), spec.ndim(),
             [&](const Owners& ranks) { return owners_text(spec, ranks); }, options) +
         caption(spec);
}

// ---- the table ----

/// "0:2+6:9": the indices of a piece in one dim if they are not one run.
std::string runs_text(const DimMap& map) {
  std::vector<std::string> runs;
  for (const IndexRun& run : map.runs) {
    runs.push_back(fmt::format("{}:{}", run.offset, run.offset + run.size));
  }
  return runs.empty() ? "none" : text_of_list(runs, "+");
}

std::string owned_text(const LocalView& view) {
  std::vector<std::string> dims;
  for (const DimMap& map : view.dims) dims.push_back(runs_text(map));
  return fmt::format("[{}]", text_of_list(dims, ", "));
}

TableRow table_row(const DTensorSpec& spec, std::int64_t index) {
  const Holding holding = holding_at(spec, index);
  std::vector<std::string> at;
  for (std::size_t dim = 0; dim < holding.coordinate.size(); ++dim) {
    at.push_back(fmt::format("{}={}", spec.layout()->names()[dim], holding.coordinate[dim]));
  }
  TableRow row{fmt::format("{}", holding.rank),
               text_of_list(at, " "),
               bracketed(holding.shape),
               spec.has_strided() ? owned_text(holding.view) : bracketed(holding.offset),
               fmt::format("{}", holding.elements),
               fmt::format("{}", holding.bytes)};
  if (holding.elements == 0 && spec.numel() > 0) row.push_back("empty");
  return row;
}

std::string ranks_text(const DTensorSpec& spec, const DrawOptions& options) {
  const std::int64_t size = spec.layout()->size();
  std::vector<TableRow> rows{
      {"rank", "at", "local shape", spec.has_strided() ? "owns" : "offset", "elements", "bytes"}};
  const bool all = size <= options.max_ranks;
  const std::int64_t head = all ? size : std::max<std::int64_t>(options.max_ranks / 2, 1);
  const std::int64_t tail = all ? 0 : std::max<std::int64_t>(options.max_ranks - head, 1);
  for (std::int64_t index = 0; index < head; ++index) rows.push_back(table_row(spec, index));
  if (!all) rows.push_back({"...", fmt::format("{} ranks left out", size - head - tail)});
  for (std::int64_t index = size - tail; index < size; ++index) {
    rows.push_back(table_row(spec, index));
  }
  return "\n" + text_table(rows, "><<<>", "  ");
}

std::string totals_text(const DTensorSpec& spec) {
  const HoldingTotals totals = totals_of(spec);
  const std::int64_t ranks = spec.layout()->size(), item = item_bytes(spec.dtype());
  std::string text = "\n  local shapes  ";
  constexpr std::size_t kShapes = 8;
  std::vector<std::string> shapes;
  for (const auto& row : totals.shapes) {
    if (shapes.size() == kShapes) break;
    shapes.push_back(fmt::format("{} on {}", bracketed(row.shape), counted(row.ranks, "rank")));
  }
  text += text_of_list(shapes, ", ");
  if (totals.shapes.size() > kShapes) {
    text += fmt::format(", {} more shapes", totals.shapes.size() - kShapes);
  }
  text +=
      fmt::format("\n  tensor        {} elements, {} bytes\n", spec.numel(), spec.numel() * item);
  text += fmt::format("  all ranks     {} elements, {} bytes", totals.elements, totals.bytes);
  if (spec.numel() > 0) {
    text += fmt::format(" ({} times the tensor)", number(static_cast<double>(totals.elements) /
                                                         static_cast<double>(spec.numel())));
  }
  text += fmt::format("\n  imbalance     {:.2f} (largest piece {} / mean {} elements)",
                      totals.imbalance(ranks), totals.largest,
                      number(static_cast<double>(totals.elements) / static_cast<double>(ranks)));
  if (totals.empty_ranks > 0 && spec.numel() > 0) {
    text +=
        fmt::format("\n  empty         {} of {} ranks hold no element", totals.empty_ranks, ranks);
  }
  return text + "\n";
}

}  // namespace

std::string draw_spec(const DTensorSpec& spec, const DrawOptions& options) {
  const MeshLayout& layout = *spec.layout();
  std::string text = fmt::format("{}  on mesh {}, {} ranks: {}\n", type_string(spec), layout.text(),
                                 layout.size(), order_text(spec.placements(), spec.order()));
  // First, since it refuses a mesh with too many ranks to visit.
  const std::string totals = totals_text(spec);
  return text + meanings_text(spec) + drawing_text(spec, options) + ranks_text(spec, options) +
         totals;
}

std::string draw_holdings(const Dims& shape, const std::vector<Holding>& holdings,
                          const DrawOptions& options) {
  const bool drawn = !shape.empty() && shape.size() <= 2 && product(shape) > 0;
  return drawn ? draw_owners(owner_grid(shape, holdings), shape.size(), rank_ranges, options) : "";
}

std::string draw_pieces(const DTensorSpec& spec, const DrawOptions& options) {
  const std::string drawing = drawing_text(spec, options);
  return drawing.empty() ? ranks_text(spec, options) : drawing;
}

}  // namespace shardlab
