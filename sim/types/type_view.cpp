// Both meshes are dims of a finer one, on which each type is that of the dim around it.
#include "sim/types/type_view.h"

#include <algorithm>
#include <utility>

#include "mesh/mesh_views.h"

namespace shardlab {

namespace {

/// A dim of the finer mesh: its type, and its place among those that cut the tensor dim.
struct FineType {
  SpmdType type = SpmdType::replicated();
  std::pair<std::int32_t, std::size_t> place;  ///< of the mesh dim around it, and in that
};

std::vector<FineType> fine_types(const TensorType& type, const std::vector<MeshAxis>& axes,
                                 std::size_t dims) {
  std::vector<FineType> fine(dims);
  for (std::size_t dim = 0; dim < axes.size(); ++dim) {
    for (std::size_t i = 0; i < axes[dim].size(); ++i) {
      fine[axes[dim][i].first] = {type.types[dim], {type.order[dim], i}};
    }
  }
  return fine;
}

// How many dims of the finer mesh cut the same tensor dim before.
std::int32_t cuts_before(const std::vector<FineType>& fine, const FineType& one) {
  return static_cast<std::int32_t>(std::ranges::count_if(fine, [&](const FineType& other) {
    return other.type == one.type && other.place < one.place;
  }));
}

// A slice has dims of the whole mesh, by name; one rank has any type along a dim of its own.
std::optional<TensorType> on_slice(const TensorType& type, const MeshLayout& from,
                                   const MeshLayout& to) {
  TensorType result;
  for (std::size_t dim = 0; dim < to.ndim(); ++dim) {
    const auto own = from.find_dim(to.names()[dim]);
    const bool same = own && from.size(*own) == to.size(dim);
    if (!same && to.size(dim) > 1) return std::nullopt;
    result.types.push_back(same ? type.types[*own] : SpmdType::replicated());
    result.order.push_back(same ? type.order[*own] : -1);
  }
  return result;
}

}  // namespace

std::optional<TensorType> type_on(const TensorType& type, const MeshLayout& from,
                                  const MeshLayout& to) {
  const MeshLayout* finer = from.size() == to.size() ? refinement(from, to) : nullptr;
  if (finer == nullptr) return on_slice(type, from, to);
  const auto before = axes_on(*finer, from), after = axes_on(*finer, to);
  if (!before || !after) return std::nullopt;
  const std::vector<FineType> fine = fine_types(type, *before, finer->ndim());
  TensorType result{{}, ShardOrder(to.ndim(), -1)};
  std::vector<std::pair<std::int32_t, std::size_t>> cuts;  // place and dim of `to`
  for (std::size_t dim = 0; dim < to.ndim(); ++dim) {
    const MeshAxis& axis = (*after)[dim];
    const FineType& first = axis.empty() ? FineType{} : fine[axis[0].first];
    for (std::size_t i = 1; i < axis.size(); ++i) {
      const FineType& next = fine[axis[i].first];
      const bool follows =
          !next.type.is_s() ||
          cuts_before(fine, next) == cuts_before(fine, first) + static_cast<std::int32_t>(i);
      if (next.type != first.type || !follows) return std::nullopt;
    }
    result.types.push_back(first.type);
    if (first.type.is_s()) cuts.emplace_back(cuts_before(fine, first), dim);
  }
  for (const auto& own : cuts) {
    result.order[own.second] =
        static_cast<std::int32_t>(std::ranges::count_if(cuts, [&](const auto& cut) {
          return cut.first < own.first && result.types[cut.second] == result.types[own.second];
        }));
  }
  return result;
}

}  // namespace shardlab
