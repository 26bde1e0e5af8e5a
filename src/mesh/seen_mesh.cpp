// Ranks that are evenly apart along each dim are walks through the order of another mesh.
#include "mesh/seen_mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "mesh/mesh_views.h"

namespace shardlab {

const MeshLayout& seen_from(const MeshLayout& whole, const MeshLayout& layout) {
  const MeshLayout& root = *whole.root();
  if (layout.root() == &root) return layout;
  constexpr std::int64_t kOutside = -1;
  const auto index_of = [&](const Coordinate& at) {
    const auto index = root.coordinate_of(layout.rank_at(at));
    return index ? (*index)[0] : kOutside;
  };
  const Coordinate zero = layout.coordinate_at_index(0);
  const std::int64_t first = index_of(zero);
  MeshView view{&root, layout.shape(), {}, layout.names(), layout.named()};
  Dims strides(layout.ndim());
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    view.steps.emplace_back();
    const std::int64_t size = layout.size(dim);
    if (size == 1) continue;
    Coordinate second = zero;
    second[dim] = 1;
    strides[dim] = index_of(second) - first;
    const bool fits = first != kOutside && strides[dim] > 0 &&
                      root.size() % (strides[dim] * size) == 0 && first / strides[dim] % size == 0;
    if (!fits) return layout;
    view.steps.back().push_back({size, strides[dim]});
  }
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    const Coordinate at = layout.coordinate_at_index(i);
    std::int64_t expected = first;
    for (std::size_t dim = 0; dim < at.size(); ++dim) expected += at[dim] * strides[dim];
    if (index_of(at) != expected) return layout;
  }
  return *part_of(view, layout.rank_at_index(0));
}

std::string text_with_ranks(const MeshLayout& layout) {
  constexpr std::int64_t kMostListed = 8;
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < std::min(layout.size(), kMostListed); ++i) {
    ranks.push_back(layout.rank_at_index(i));
  }
  return fmt::format("{} over ranks {}{}", layout.text(), text_of_list(ranks, ", "),
                     layout.size() > kMostListed ? ", ..." : "");
}

}  // namespace shardlab
