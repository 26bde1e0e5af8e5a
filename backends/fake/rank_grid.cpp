// Cells are products of parts of the mesh dims; splitting a part on one dim splits every cell of
// that slab, which may be finer than need be and never coarser. When a question splits the grid,
// two coordinates of a mesh dim stay together if all answers through the one equal those through
// the other, which a sum of hashes per coordinate compares in one pass over the ranks.
#include "backends/fake/rank_grid.h"

#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/hash.h"

namespace shardlab::fake {

// The length of a piece falls with the index by the chunk rule, so that the places where it changes
// are found by halving, in O(changes log n) per cut and not O(n): most cuts have one or two.

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

namespace {

constexpr std::size_t kMostCells = 1u << 16;
/// Characters that ranges of ranks may take in a report's line.
constexpr std::size_t kLongRanges = 48;

}  // namespace

RankGrid::RankGrid(const MeshLayout& layout, std::int64_t world_size)
    : layout_(&layout), world_size_(world_size) {
  if (world_size > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorKind::kUnsupported,
         Fix{"use a smaller mesh: ranks that do the same are counted, not run"},
         "a shape-only world has {} ranks; it must have fewer than 2^31", world_size);
  }
  const auto one_part = [](std::int64_t size) { return Axis{{size}, {0}, {size}, {0}}; };
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) axes_.push_back(one_part(layout.size(dim)));
  const std::int64_t outside = world_size - layout.size();
  outside_ = outside > 0 ? one_part(outside) : Axis{};
  if (outside > 0 && !layout.is_iota()) {
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      if (!layout.coordinate_of(rank)) outsiders_.push_back(rank);
    }
  }
  tags_.assign(outside > 0 ? 2 : 1, 0);
}

std::int64_t RankGrid::outsider(std::int64_t index) const {
  return outsiders_.empty() ? layout_->size() + index : outsiders_[static_cast<std::size_t>(index)];
}

std::vector<std::size_t> RankGrid::parts_of(std::size_t cell) const {
  std::vector<std::size_t> parts(axes_.size());
  for (std::size_t dim = axes_.size(); dim-- > 0;) {
    parts[dim] = cell % axes_[dim].sizes.size();
    cell /= axes_[dim].sizes.size();
  }
  return parts;
}

std::size_t RankGrid::cell_of_parts(const std::vector<std::size_t>& parts) const {
  std::size_t cell = 0;
  for (std::size_t dim = 0; dim < axes_.size(); ++dim) {
    cell = cell * axes_[dim].sizes.size() + parts[dim];
  }
  return cell;
}

std::int64_t RankGrid::size(std::size_t cell) const {
  if (!inside(cell)) return outside_.sizes[cell - inside_cells_];
  const std::vector<std::size_t> parts = parts_of(cell);
  std::int64_t size = 1;
  for (std::size_t dim = 0; dim < axes_.size(); ++dim) size *= axes_[dim].sizes[parts[dim]];
  return size;
}

Coordinate RankGrid::first_coordinate(std::size_t cell) const {
  const std::vector<std::size_t> parts = parts_of(cell);
  Coordinate coordinate(axes_.size());
  for (std::size_t dim = 0; dim < axes_.size(); ++dim) {
    coordinate[dim] = axes_[dim].firsts[parts[dim]];
  }
  return coordinate;
}

std::int64_t RankGrid::first_rank(std::size_t cell) const {
  if (!inside(cell)) return outsider(outside_.firsts[cell - inside_cells_]);
  return layout_->rank_at(first_coordinate(cell));
}

std::size_t RankGrid::cell_at(const Coordinate& coordinate) const {
  std::size_t cell = 0;
  for (std::size_t dim = 0; dim < axes_.size(); ++dim) {
    const Axis& axis = axes_[dim];
    const std::int32_t part = axis.part_of[axis.run_of(coordinate[dim])];
    cell = cell * axis.sizes.size() + static_cast<std::size_t>(part);
  }
  return cell;
}

std::vector<std::vector<std::int64_t>> RankGrid::Axis::coordinates() const {
  std::vector<std::vector<std::int64_t>> by_part(sizes.size());
  for (std::size_t run = 0; run < ends.size(); ++run) {
    for (std::int64_t i = begin(run); i < ends[run]; ++i) {
      by_part[static_cast<std::size_t>(part_of[run])].push_back(i);
    }
  }
  return by_part;
}

void RankGrid::for_each_inside(
    const std::vector<bool>& cells,
    const std::function<void(std::int64_t, const Coordinate&)>& visit) const {
  std::vector<std::vector<std::vector<std::int64_t>>> coordinates;
  for (const Axis& axis : axes_) coordinates.push_back(axis.coordinates());
  for (std::size_t cell = 0; cell < inside_cells_; ++cell) {
    if (!cells[cell]) continue;
    const std::vector<std::size_t> parts = parts_of(cell);
    std::vector<std::size_t> places(parts.size());
    Coordinate coordinate(axes_.size());
    for (std::int64_t left = size(cell); left > 0; --left) {
      std::int64_t index = 0;
      for (std::size_t dim = 0; dim < parts.size(); ++dim) {
        coordinate[dim] = coordinates[dim][parts[dim]][places[dim]];
        index = index * layout_->size(dim) + coordinate[dim];
      }
      visit(index, coordinate);
      for (std::size_t dim = parts.size(); dim-- > 0;) {
        if (++places[dim] < coordinates[dim][parts[dim]].size()) break;
        places[dim] = 0;
      }
    }
  }
}

std::vector<std::int64_t> RankGrid::ranks(const std::function<bool(std::size_t)>& wanted) const {
  std::vector<bool> takes(tags_.size());
  for (std::size_t cell = 0; cell < tags_.size(); ++cell) takes[cell] = wanted(cell);
  std::vector<std::int64_t> ranks;
  for_each_inside(takes, [&](std::int64_t index, const Coordinate&) {
    ranks.push_back(layout_->rank_at_index(index));
  });
  const auto outside = outside_.coordinates();
  for (std::size_t part = 0; part < outside.size(); ++part) {
    if (!takes[inside_cells_ + part]) continue;
    for (const std::int64_t i : outside[part]) ranks.push_back(outsider(i));
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string RankGrid::where(int tag) const {
  std::vector<std::vector<bool>> parts;  // by axis, whether some cell has it
  for (const Axis& axis : axes_) parts.emplace_back(axis.sizes.size());
  std::int64_t held = 0;
  bool outside = false;
  for (std::size_t cell = 0; cell < tags_.size(); ++cell) {
    if (tags_[cell] != tag) continue;
    held += size(cell);
    outside = outside || !inside(cell);
    if (!inside(cell)) continue;
    const std::vector<std::size_t> at = parts_of(cell);
    for (std::size_t dim = 0; dim < at.size(); ++dim) parts[dim][at[dim]] = true;
  }
  if (held == layout_->size() && !outside) return "";
  std::int64_t spanned = outside ? 0 : 1;
  std::string text;
  for (std::size_t dim = 0; dim < axes_.size(); ++dim) {
    RankRanges coordinates;
    std::int64_t count = 0;
    for (std::size_t run = 0; run < axes_[dim].ends.size(); ++run) {
      if (!parts[dim][static_cast<std::size_t>(axes_[dim].part_of[run])]) continue;
      add_range(coordinates, axes_[dim].begin(run), axes_[dim].ends[run] - 1);
      count += axes_[dim].ends[run] - axes_[dim].begin(run);
    }
    spanned *= count;
    if (count == layout_->size(dim)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", layout_->names()[dim],
                        shortened_text(coordinates, kLongRanges));
  }
  if (spanned == held) return text;
  return "ranks " + shortened_text(ranges_of(tag), kLongRanges);
}

RankRanges RankGrid::ranges_of(int tag) const {
  RankRanges ranges;
  if (!layout_->is_iota()) {
    for (const std::int64_t rank : ranks([&](std::size_t at) { return tags_[at] == tag; })) {
      add_range(ranges, rank, rank);
    }
    return ranges;
  }
  for (std::int64_t i = 0; i < layout_->size() && 2 * ranges.size() <= kLongRanges;) {
    const Coordinate at = layout_->coordinate_at_index(i);
    const Axis& last = axes_.back();
    const std::int64_t end = i - at.back() + last.ends[last.run_of(at.back())];
    if (tags_[cell_at(at)] == tag) add_range(ranges, i, end - 1);
    i = end;
  }
  for (std::size_t run = 0; run < outside_.ends.size(); ++run) {
    if (tags_[inside_cells_ + static_cast<std::size_t>(outside_.part_of[run])] != tag) continue;
    add_range(ranges, layout_->size() + outside_.begin(run),
              layout_->size() + outside_.ends[run] - 1);
  }
  return ranges;
}

std::vector<std::size_t> RankGrid::line(std::size_t cell,
                                        std::vector<std::size_t> mesh_dims) const {
  std::vector<std::vector<std::size_t>> lines = {parts_of(cell)};
  for (const std::size_t dim : mesh_dims) {
    std::vector<std::vector<std::size_t>> longer;
    for (const auto& parts : lines) {
      for (std::size_t part = 0; part < axes_[dim].sizes.size(); ++part) {
        longer.push_back(parts);
        longer.back()[dim] = part;
      }
    }
    lines = std::move(longer);
  }
  std::vector<std::size_t> cells;
  for (const auto& parts : lines) cells.push_back(cell_of_parts(parts));
  std::sort(cells.begin(), cells.end());
  return cells;
}

RankGrid::Labels RankGrid::runs_of(const std::vector<std::uint64_t>& labels) {
  Labels runs;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (runs.empty() || runs.back().second != labels[i]) runs.emplace_back(0, labels[i]);
    runs.back().first = static_cast<std::int64_t>(i) + 1;
  }
  return runs;
}

std::vector<std::int32_t> RankGrid::relabel(Axis& axis, const Labels& labels) {
  std::map<std::pair<std::int32_t, std::uint64_t>, std::int32_t> numbers;
  std::vector<std::int32_t> origins;
  Axis fresh;
  auto label = labels.begin();
  for (std::size_t run = 0; run < axis.ends.size();) {
    const auto next = static_cast<std::int32_t>(origins.size());
    const auto [entry, added] = numbers.try_emplace({axis.part_of[run], label->second}, next);
    const std::int64_t begin = fresh.count(), end = std::min(axis.ends[run], label->first);
    if (added) {
      origins.push_back(axis.part_of[run]);
      fresh.sizes.push_back(0);
      fresh.firsts.push_back(begin);
    }
    fresh.part_of.push_back(entry->second);
    fresh.ends.push_back(end);
    fresh.sizes[static_cast<std::size_t>(entry->second)] += end - begin;
    if (label->first == end) ++label;
    if (axis.ends[run] == end) ++run;
  }
  axis = std::move(fresh);
  return origins;
}

// `origins`: by axis, the outside last; the part that each part was cut from.
void RankGrid::rebuild_tags(const std::vector<std::vector<std::int32_t>>& origins) {
  std::vector<std::size_t> old_counts;
  std::size_t old_inside = 1, count = 1;
  for (std::size_t dim = 0; dim < axes_.size(); ++dim) {
    old_counts.push_back(
        static_cast<std::size_t>(*std::max_element(origins[dim].begin(), origins[dim].end())) + 1);
    old_inside *= old_counts[dim];
    count *= origins[dim].size();
    if (count > kMostCells) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("a shape-only mesh in more than {} kinds of ranks", kMostCells))
          .with("mesh", layout_->text())
          .with("fix", "ask for parts of the mesh (mesh.coordinate) instead of single ranks");
    }
  }
  const std::vector<int> old = std::move(tags_);
  tags_.assign(count + origins.back().size(), 0);
  inside_cells_ = count;
  for (std::size_t cell = 0; cell < count; ++cell) {
    const std::vector<std::size_t> parts = parts_of(cell);
    std::size_t origin = 0;
    for (std::size_t dim = 0; dim < axes_.size(); ++dim) {
      origin = origin * old_counts[dim] + static_cast<std::size_t>(origins[dim][parts[dim]]);
    }
    tags_[cell] = old[origin];
  }
  for (std::size_t i = 0; i < origins.back().size(); ++i) {
    tags_[count + i] = old[old_inside + static_cast<std::size_t>(origins.back()[i])];
  }
}

namespace {

std::vector<std::int32_t> themselves(std::size_t parts) {
  std::vector<std::int32_t> origins(parts);
  std::iota(origins.begin(), origins.end(), 0);
  return origins;
}

}  // namespace

void RankGrid::cut(const std::vector<CutPlace>& places) {
  std::vector<std::vector<std::int32_t>> origins;
  for (std::size_t dim = 0; dim < axes_.size(); ++dim) {
    std::set<std::int64_t> ends = {axes_[dim].count()};
    for (const CutPlace& place : places) {
      if (place.mesh_dim == dim && place.coordinate > 0) ends.insert(place.coordinate);
    }
    Labels labels;
    for (const std::int64_t end : ends) labels.emplace_back(end, labels.size());
    origins.push_back(relabel(axes_[dim], labels));
  }
  origins.push_back(themselves(outside_.sizes.size()));
  rebuild_tags(origins);
}

void RankGrid::split(const std::function<std::uint64_t(std::int64_t)>& answer,
                     const std::function<bool(std::size_t)>& asked) {
  std::vector<bool> wanted(tags_.size());
  for (std::size_t cell = 0; cell < tags_.size(); ++cell) wanted[cell] = asked(cell);
  // Two coordinates are of one part when the mesh is the same through both: sums of hashes show it.
  std::vector<std::vector<std::uint64_t>> labels;
  for (const Axis& axis : axes_) labels.emplace_back(axis.count());
  std::vector<std::uint64_t> outside(static_cast<std::size_t>(outside_.count()));
  for_each_inside(wanted, [&](std::int64_t index, const Coordinate& coordinate) {
    const std::uint64_t value = answer(layout_->rank_at_index(index));
    std::int64_t step = 1;
    for (std::size_t dim = axes_.size(); dim-- > 0;) {
      const auto rest = static_cast<std::uint64_t>(index - coordinate[dim] * step);
      labels[dim][static_cast<std::size_t>(coordinate[dim])] += hash_mix(rest, value);
      step *= layout_->size(dim);
    }
  });
  const auto others = outside_.coordinates();
  for (std::size_t part = 0; part < others.size(); ++part) {
    if (!wanted[inside_cells_ + part]) continue;
    for (const std::int64_t i : others[part]) {
      outside[static_cast<std::size_t>(i)] = hash_mix(1, answer(outsider(i)));
    }
  }
  std::vector<std::vector<std::int32_t>> origins;
  for (std::size_t dim = 0; dim < axes_.size(); ++dim) {
    origins.push_back(relabel(axes_[dim], runs_of(labels[dim])));
  }
  origins.push_back(relabel(outside_, runs_of(outside)));
  rebuild_tags(origins);
}

}  // namespace shardlab::fake
