// Pieces are copies, so that all comparisons are exact. A value with equal rows or blocks has many
// right orders, and one that fits is no evidence.
#include "sim/verify/labels/source_of_pieces.h"

#include <algorithm>
#include <set>
#include <utility>

#include "mesh/local_shape.h"
#include "mesh/type_string.h"

namespace shardlab {

namespace {

using Numbers = std::pair<std::vector<double>, std::vector<std::int64_t>>;

bool has_terms(const Placements& placements) {
  return std::ranges::any_of(placements, [](const Placement& p) { return p.is_partial(); });
}

// Ranks that hold different pieces hold different numbers.
bool all_differ(const std::vector<GlobalValue>& held, const Placements& placements,
                const MeshLayout& layout) {
  std::int64_t replicas = 1, pieces = 0;
  for (std::size_t dim = 0; dim < placements.size(); ++dim) {
    if (placements[dim].is_replicate()) replicas *= layout.size(dim);
  }
  std::set<Numbers> different;
  for (const GlobalValue& piece : held) {
    if (product(piece.meta.shape) == 0) continue;
    ++pieces;
    different.emplace(piece.reals, piece.integers);
  }
  return static_cast<std::int64_t>(different.size()) * replicas == pieces;
}

std::vector<GlobalValue> pieces_of(const DTensorSpec& spec, const GlobalValue& whole) {
  const std::size_t width = is_complex(whole.meta.dtype) ? 2 : 1;
  std::vector<GlobalValue> pieces;
  for (std::int64_t i = 0; i < spec.layout()->size(); ++i) {
    const LocalView view = local_view(spec, spec.layout()->coordinate_at_index(i));
    Dims shape;
    for (const auto& dim : view.dims) shape.push_back(dim.local_size());
    GlobalValue& piece = pieces.emplace_back();
    piece.meta = contiguous_meta(shape, whole.meta.dtype);
    for_each_element(view, [&](std::size_t, std::size_t at) {
      if (whole.is_integral()) return piece.integers.push_back(whole.integers[at]);
      for (std::size_t k = 0; k < width; ++k) piece.reals.push_back(whole.reals[at * width + k]);
    });
  }
  return pieces;
}

bool equal(const GlobalValue& a, const GlobalValue& b) {
  return a.meta.shape == b.meta.shape && a.meta.dtype == b.meta.dtype && a.reals == b.reals &&
         a.integers == b.integers;
}

}  // namespace

std::optional<SourceOfPieces> source_of_pieces(const DTensorSpec& spec,
                                               const std::vector<GlobalValue>& held,
                                               const GlobalValue& claimed,
                                               const std::vector<NamedWhole>& wholes) {
  const MeshLayout& layout = *spec.layout();
  const Placements& own = spec.placements();
  if (spec.is_replicated() || has_terms(own) || !all_differ(held, own, layout)) return std::nullopt;
  for (std::size_t i = 0; i < wholes.size(); ++i) {
    if (equal(wholes[i].value, claimed)) return SourceOfPieces{i, std::nullopt};
  }
  for (std::size_t i = 0; i < wholes.size(); ++i) {
    const GlobalValue& whole = wholes[i].value;
    if (whole.meta.shape != claimed.meta.shape || whole.meta.dtype != claimed.meta.dtype) continue;
    const auto label = label_of(held, whole, layout, 0);
    if (!label || has_terms(label->placements) || !all_differ(held, label->placements, layout)) {
      continue;
    }
    return SourceOfPieces{i, label};
  }
  return std::nullopt;
}

std::optional<SourceOfPieces> source_of_mixed(const MeshLayout& layout, const GlobalValue& got,
                                              const std::vector<NamedWhole>& wholes) {
  for (std::size_t dim = 0; dim < got.meta.shape.size(); ++dim) {
    const auto cut = Placement::shard(static_cast<std::int64_t>(dim));
    const DTensorSpec* spec =
        layout.arena().spec(&layout, Placements(layout.ndim(), cut), got.meta);
    if (auto source = source_of_pieces(*spec, pieces_of(*spec, got), got, wholes)) return source;
  }
  return std::nullopt;
}

namespace {

// The values of the ranks, moved back along a mesh dim by this many places.
std::vector<GlobalValue> moved_back(const std::vector<GlobalValue>& held, const MeshLayout& layout,
                                    std::size_t mesh_dim, std::int64_t places) {
  const std::int64_t inner = product(std::span(layout.shape()).subspan(mesh_dim + 1));
  const std::int64_t size = layout.size(mesh_dim);
  std::vector<GlobalValue> result;
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    const std::int64_t at = i / inner % size;
    const std::int64_t from = i + ((at + places) % size - at) * inner;
    result.push_back(held[static_cast<std::size_t>(from)]);
  }
  return result;
}

// By its size it may be cut into such a piece.
bool may_be_cut(const TensorMeta& whole, const TensorMeta& piece) {
  if (whole.dtype != piece.dtype || whole.shape == piece.shape) return false;
  return std::ranges::equal(whole.shape, piece.shape, std::ranges::greater_equal{});
}

}  // namespace

std::optional<ShiftedPieces> shifted_pieces(const MeshLayout& layout,
                                            const std::vector<GlobalValue>& held,
                                            const std::vector<NamedWhole>& wholes,
                                            double relative) {
  for (std::size_t mesh_dim = 0; mesh_dim < layout.ndim(); ++mesh_dim) {
    const std::int64_t size = layout.size(mesh_dim);
    for (std::int64_t places = 1; places < size; ++places) {
      const auto back = moved_back(held, layout, mesh_dim, places);
      for (std::size_t i = 0; i < wholes.size(); ++i) {
        if (!may_be_cut(wholes[i].value.meta, held[0].meta)) continue;
        const auto label = label_of(back, wholes[i].value, layout, relative);
        if (!label || !label->placements[mesh_dim].is_shard()) continue;
        if (has_terms(label->placements) || !all_differ(held, label->placements, layout)) continue;
        return ShiftedPieces{i, *label, mesh_dim, 2 * places > size ? places - size : places};
      }
    }
  }
  return std::nullopt;
}

}  // namespace shardlab
