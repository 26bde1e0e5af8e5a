// A new layout is searched among the parts of the known ones, before it counts as a mesh of its
// own.
#include "trace/graph_meshes.h"

#include "base/error.h"
#include "mesh/mesh_views.h"
#include "mesh/spec.h"

namespace shardlab {

namespace {

// Ranks outside of a mesh have the part of its first rank, as in slices of programs.
Coordinate coordinate_of(const MeshLayout& layout, std::int64_t rank) {
  const auto coordinate = layout.coordinate_of(rank);
  return coordinate ? *coordinate : layout.coordinate_at_index(0);
}

// The dims of `layout` whose bits are set.
std::vector<std::string> picked(const MeshLayout& layout, std::uint32_t bits) {
  std::vector<std::string> names;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    if ((bits >> dim & 1u) != 0) names.push_back(layout.names()[dim]);
  }
  return names;
}

}  // namespace

GraphMeshes::GraphMeshes(std::vector<GraphMesh>& meshes, std::int64_t rank)
    : written_(&meshes), meshes_(&meshes), rank_(rank) {}

GraphMeshes::GraphMeshes(const std::vector<GraphMesh>& meshes, std::int64_t rank, Arena& arena)
    : meshes_(&meshes), rank_(rank), arena_(&arena), layouts_(meshes.size()) {}

std::int32_t GraphMeshes::number_of(const MeshLayout* layout) {
  const auto found = std::ranges::find(layouts_, layout);
  const auto number = static_cast<std::int32_t>(found - layouts_.begin());
  if (found != layouts_.end()) return number;
  check_invariant(written_ != nullptr, "a replay meets the meshes of its graph only");
  GraphMesh mesh = described(layout);
  // Ranks would be those of one rank's part: a mesh of all that it was cut from goes before it.
  if (mesh.base < 0 && layout->is_cut()) {
    const MeshLayout* fine = refinement(*layout, *layout);
    if (fine != nullptr && std::ranges::find(layouts_, fine) == layouts_.end()) {
      number_of(fine);
      mesh = described(layout);
    }
  }
  written_->push_back(std::move(mesh));
  layouts_.push_back(layout);
  return static_cast<std::int32_t>(layouts_.size()) - 1;
}

GraphMesh GraphMeshes::described(const MeshLayout* layout) const {
  GraphMesh mesh{.names = layout->named() ? layout->names() : std::vector<std::string>(),
                 .shape = layout->shape(),
                 .ranks = {},
                 .part = {}};
  constexpr std::size_t kMostDims = 12;  // 4,096 parts are searched
  for (std::size_t base = 0; base < layouts_.size(); ++base) {
    const MeshLayout& whole = *layouts_[base];
    if (whole.ndim() > kMostDims) continue;
    const Coordinate here = coordinate_of(whole, rank_);
    for (std::uint32_t bits = 1; bits < 1u << whole.ndim(); ++bits) {
      const std::vector<std::string> names = picked(whole, bits);
      const bool part = slice_layout(&whole, names, here) == layout;
      const bool flat = !part && layout->ndim() == 1 && names.size() > 1 &&
                        flatten_layout(&whole, names, here, layout->names()[0]) == layout;
      if (!part && !flat) continue;
      mesh.base = static_cast<std::int32_t>(base);
      mesh.part = names;
      mesh.flattened = flat;
      return mesh;
    }
  }
  if (layout->is_iota()) return mesh;
  for (std::int64_t i = 0; i < layout->size(); ++i) mesh.ranks.push_back(layout->rank_at_index(i));
  return mesh;
}

const MeshLayout* GraphMeshes::layout(std::int32_t number) {
  if (number < 0 || static_cast<std::size_t>(number) >= meshes_->size()) {
    fail(Fix{kCaptureProgram}, "the graph has no mesh {}", number);
  }
  if (layouts_.size() < meshes_->size()) layouts_.resize(meshes_->size());
  const auto index = static_cast<std::size_t>(number);
  if (layouts_[index] == nullptr) layouts_[index] = made((*meshes_)[index]);
  return layouts_[index];
}

const MeshLayout* GraphMeshes::made(const GraphMesh& mesh) {
  if (mesh.base < 0) {
    return arena_->layout({.shape = mesh.shape, .names = mesh.names, .ranks = mesh.ranks});
  }
  const MeshLayout* base = layout(mesh.base);
  const Coordinate here = coordinate_of(*base, rank_);
  return mesh.flattened ? flatten_layout(base, mesh.part, here, mesh.names.at(0))
                        : slice_layout(base, mesh.part, here);
}

ValueType GraphMeshes::type_of(const DTensorSpec& spec) {
  return {.dtype = spec.dtype(),
          .shape = spec.shape(),
          .stride = spec.stride(),
          .mesh = number_of(spec.layout()),
          .placements = spec.placements(),
          .order = spec.order()};
}

const DTensorSpec* GraphMeshes::spec_of(const ValueType& type) {
  const MeshLayout* mesh = layout(type.mesh);
  if (type.placements.size() != mesh->ndim()) {
    fail(Fix{kCaptureProgram}, "a value has {} placements on a mesh of {} dims",
         type.placements.size(), mesh->ndim());
  }
  return mesh->arena().spec(mesh, type.placements, type.order,
                            TensorMeta{type.shape, type.stride, type.dtype});
}

ValueType plain_type(const TensorMeta& meta) {
  return {.dtype = meta.dtype,
          .shape = meta.shape,
          .stride = meta.stride,
          .placements = {},
          .order = {}};
}

}  // namespace shardlab
