// Rank and coordinate are two ways to number the same array, row-major. A layout whose ranks are 0,
// 1, 2, ... stores no list, so that a mesh of a million ranks costs nothing; others look ranks up
// in a sorted list. Groups along mesh dims come from the steps of the row-major array, in O(group
// size).
#include "mesh/mesh_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "mesh/spec.h"

namespace shardlab {
namespace {

/// Row-major steps of an array of this shape.
Dims row_major(const Dims& shape) {
  Dims steps(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0; step *= shape[i]) steps[i] = step;
  return steps;
}

}  // namespace

MeshLayout::MeshLayout(Arena* arena, Init init, std::uint64_t hash)
    : arena_(arena),
      shape_(std::move(init.shape)),
      names_(std::move(init.names)),
      named_(!names_.empty()),
      ranks_(std::move(init.ranks)),
      size_(product(shape_)),
      hash_(hash),
      root_(init.root),
      steps_(std::move(init.steps)) {
  for (std::size_t dim = 0; !named_ && dim < shape_.size(); ++dim) {
    names_.push_back(fmt::format("m{}", dim));
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    index_by_rank_.emplace_back(ranks_[i], static_cast<std::int64_t>(i));
  }
  std::sort(index_by_rank_.begin(), index_by_rank_.end());
}

std::optional<std::size_t> MeshLayout::find_dim(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names_.begin());
}

std::int64_t MeshLayout::rank_at(const Coordinate& coordinate) const {
  return rank_at_index(index_of(coordinate));
}

std::int64_t MeshLayout::rank_at_index(std::int64_t row_major_index) const {
  return is_iota() ? row_major_index : ranks_[static_cast<std::size_t>(row_major_index)];
}

std::optional<Coordinate> MeshLayout::coordinate_of(std::int64_t rank) const {
  if (is_iota()) {
    if (rank < 0 || rank >= size_) return std::nullopt;
    return coordinate_at_index(rank);
  }
  const auto found = std::lower_bound(index_by_rank_.begin(), index_by_rank_.end(),
                                      std::pair<std::int64_t, std::int64_t>(rank, 0));
  if (found == index_by_rank_.end() || found->first != rank) return std::nullopt;
  return coordinate_at_index(found->second);
}

Coordinate MeshLayout::coordinate_at_index(std::int64_t row_major_index) const {
  Coordinate coordinate(shape_.size());
  coordinate.mesh = this;
  for (std::size_t dim = shape_.size(); dim-- > 0;) {
    coordinate[dim] = row_major_index % shape_[dim];
    row_major_index /= shape_[dim];
  }
  return coordinate;
}

std::int64_t MeshLayout::index_of(const Coordinate& coordinate) const {
  check_own(coordinate);
  std::int64_t index = 0;
  for (std::size_t dim = 0; dim < shape_.size(); ++dim) {
    index = index * shape_[dim] + coordinate[dim];
  }
  return index;
}

std::vector<std::int64_t> MeshLayout::group_ranks(std::size_t mesh_dim,
                                                  const Coordinate& coordinate) const {
  return group_ranks(std::span(&mesh_dim, 1), coordinate);
}

std::vector<std::int64_t> MeshLayout::group_ranks(std::span<const std::size_t> mesh_dims,
                                                  const Coordinate& coordinate) const {
  const Dims steps = row_major(shape_);
  std::int64_t start = index_of(coordinate);
  for (const std::size_t dim : mesh_dims) start -= coordinate[dim] * steps[dim];
  std::vector<std::int64_t> indices{start};
  for (const std::size_t dim : mesh_dims) {
    std::vector<std::int64_t> longer;
    longer.reserve(indices.size() * static_cast<std::size_t>(shape_[dim]));
    for (const std::int64_t index : indices) {
      for (std::int64_t i = 0; i < shape_[dim]; ++i) longer.push_back(index + i * steps[dim]);
    }
    indices = std::move(longer);
  }
  for (std::int64_t& index : indices) index = rank_at_index(index);
  return indices;
}

const MeshLayout* MeshLayout::root() const {
  if (root_ != nullptr) return root_;
  return arena_->layout({.shape = {size_}, .names = {}, .ranks = ranks_});
}

MeshSteps MeshLayout::steps(std::size_t mesh_dim) const {
  if (root_ != nullptr) return steps_[mesh_dim];
  if (shape_[mesh_dim] == 1) return {};
  return {{shape_[mesh_dim], row_major(shape_)[mesh_dim]}};
}

void MeshLayout::refuse(const Coordinate& coordinate) const {
  throw Error(ErrorKind::kInternal, "a coordinate is used on another mesh than its own")
      .with("mesh", fmt::format("{}, and it is one of {}", text(), coordinate.mesh->text()));
}

std::vector<std::int64_t> MeshLayout::group_of(std::size_t mesh_dim, std::int64_t rank) const {
  const auto coordinate = coordinate_of(rank);
  if (coordinate) return group_ranks(mesh_dim, *coordinate);
  throw Error(ErrorKind::kValue,
              fmt::format("rank {} is outside the mesh, so that it has no group along {}", rank,
                          names_[mesh_dim]))
      .with("mesh", text())
      .with("fix", "ask for the group of a rank of the mesh");
}

void MeshLayout::check_fits(std::int64_t world_size) const {
  if (size_ > world_size) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("the mesh has {} ranks, the world only {}", size_, world_size))
        .with("mesh", text())
        .with("fix", fmt::format("start {} ranks, or use a smaller mesh", size_));
  }
  if (is_iota() || index_by_rank_.back().first < world_size) return;
  throw Error(ErrorKind::kValue,
              fmt::format("the mesh names rank {}; the last rank of the world is {}",
                          index_by_rank_.back().first, world_size - 1))
      .with("mesh", text())
      .with("fix", fmt::format("start at least {} ranks, or name others",
                               index_by_rank_.back().first + 1));
}

std::string text_of_mesh_dims(std::span<const std::string> names, const Dims& shape) {
  std::vector<std::string> parts;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    parts.push_back(fmt::format("{}:{}", names[dim], shape[dim]));
  }
  return fmt::format("{{{}}}", text_of_list(parts, ", "));
}

std::string MeshLayout::text() const { return text_of_mesh_dims(names_, shape_); }

}  // namespace shardlab
