// Pieces are copies, so that all comparisons are exact. Of a value with equal rows or blocks many
// orders are right, and one that fits says nothing.
#include "sim/verify/labels/source_of_pieces.h"

#include <algorithm>
#include <set>
#include <utility>

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

}  // namespace shardlab
