// Meshes are constructed once per layout and rank, collectively, with all their groups: a split
// that only some ranks reach would deadlock on a real backend. Groups over several mesh dims exist
// only for those sets of dims that were flattened on every rank, for the same reason.
#include "comm/device_mesh.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace shardlab {

ProcessGroup& DeviceMesh::group(std::size_t mesh_dim) const {
  if (!coordinate_) {
    fail(ErrorKind::kRuntime, Fix{"call the collective on the ranks of the mesh only"},
         "rank {} is not in mesh {}, so that it has no process group there", current_rank().rank,
         layout_->text());
  }
  check_invariant(mesh_dim < groups_.size(), "a mesh has one group per mesh dim");
  return *groups_[mesh_dim];
}

ProcessGroup& DeviceMesh::group(std::span<const std::size_t> mesh_dims) const {
  if (mesh_dims.size() == 1) return group(mesh_dims[0]);
  const auto found = std::ranges::find(flattened_, mask_of(mesh_dims));
  if (!coordinate_ || found == flattened_.end()) {
    throw Error(ErrorKind::kRuntime, "these dims of a mesh have no group of their own")
        .with("mesh", layout_->text())
        .with("fix", "flatten them on every rank of the world first");
  }
  return *flattened_groups_[static_cast<std::size_t>(found - flattened_.begin())];
}

ProcessGroup* DeviceMesh::everyone() const {
  check_invariant(coordinate_.has_value(), "only ranks of the mesh ask for them all");
  return everyone_;
}

namespace {

void check_ranks(const MeshLayout& layout, std::int64_t world_size) {
  if (layout.is_iota() && layout.size() <= world_size) return;
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    const std::int64_t rank = layout.rank_at_index(i);
    if (rank < world_size) continue;
    throw Error(ErrorKind::kValue,
                fmt::format("a mesh names rank {} in a world of {} ranks", rank, world_size))
        .with("mesh", layout.text())
        .with("fix", fmt::format("a world of at least {} ranks", rank + 1));
  }
}

InlineVector<std::size_t, 4> all_dims(const MeshLayout& layout) {
  InlineVector<std::size_t, 4> dims;
  for (std::size_t mesh_dim = 0; mesh_dim < layout.ndim(); ++mesh_dim) dims.push_back(mesh_dim);
  return dims;
}

}  // namespace

MeshRegistry::~MeshRegistry() {
  while (!meshes_.empty()) meshes_.pop_back();
}

std::unique_ptr<DeviceMesh> MeshRegistry::begun(const MeshLayout* layout) const {
  check_ranks(*layout, world_->size());
  auto fresh = std::make_unique<DeviceMesh>();
  fresh->layout_ = layout;
  fresh->coordinate_ = layout->coordinate_of(world_->rank());
  return fresh;
}

const DeviceMesh& MeshRegistry::keep(std::unique_ptr<DeviceMesh> mesh) {
  by_layout_.emplace(mesh->layout(), mesh.get());
  meshes_.push_back(std::move(mesh));
  return *meshes_.back();
}

const DeviceMesh& MeshRegistry::construct(const MeshLayout* layout) {
  const auto known = by_layout_.find(layout);
  if (known != by_layout_.end()) return *known->second;
  auto fresh = begun(layout);
  find_everyone(*fresh, make_groups(*fresh));
  return keep(std::move(fresh));
}

const DeviceMesh& MeshRegistry::construct_of(const MeshLayout* layout,
                                             std::vector<ProcessGroup*> groups) {
  const auto known = by_layout_.find(layout);
  if (known != by_layout_.end()) return *known->second;
  auto fresh = begun(layout);
  fresh->groups_ = std::move(groups);
  find_everyone(*fresh, false);
  return keep(std::move(fresh));
}

std::pair<const DeviceMesh*, std::size_t> MeshRegistry::owner_of(const MeshLayout& layout,
                                                                 std::size_t mesh_dim) const {
  for (const auto& mesh : meshes_) {
    const MeshLayout& other = *mesh->layout();
    const auto dim = other.find_dim(layout.names()[mesh_dim]);
    const bool same =
        dim && other.root() == layout.root() && other.steps(*dim) == layout.steps(mesh_dim);
    if (same) return {mesh.get(), *dim};
  }
  return {nullptr, 0};
}

// Groups of a layout that was not cut are made together, whatever other meshes have: ranks that
// are outside of the others could not know.
bool MeshRegistry::make_groups(DeviceMesh& mesh) {
  const MeshLayout& layout = *mesh.layout();
  bool met = false;
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    const auto [owner, number] =
        layout.is_cut() ? owner_of(layout, dim) : std::pair<const DeviceMesh*, std::size_t>();
    if (owner != nullptr) {
      if (mesh.coordinate_) mesh.groups_.push_back(owner->groups_[number]);
      continue;
    }
    met = true;
    if (auto group = split(mesh, {&dim, 1})) {
      mesh.groups_.push_back(group.get());
      mesh.own_groups_.push_back(std::move(group));
    }
  }
  return met;
}

void MeshRegistry::find_everyone(DeviceMesh& mesh, bool met) {
  const MeshLayout& layout = *mesh.layout();
  if (layout.size() == world_->size()) {
    mesh.everyone_ = world_;
  } else if (layout.ndim() == 1) {
    mesh.everyone_ = mesh.groups_.empty() ? nullptr : mesh.groups_[0];
  } else if (met) {
    mesh.own_everyone_ = split(mesh, all_dims(layout));
    mesh.everyone_ = mesh.own_everyone_.get();
  }
}

const DeviceMesh& MeshRegistry::flatten(const MeshLayout* layout,
                                        std::span<const std::size_t> mesh_dims) {
  construct(layout);
  DeviceMesh& mesh = *by_layout_.at(layout);
  InlineVector<std::size_t, 4> sorted(mesh_dims);
  std::ranges::sort(sorted);
  if (sorted.size() < 2 || sorted.back() >= layout->ndim() ||
      std::ranges::adjacent_find(sorted) != sorted.end()) {
    throw Error(ErrorKind::kValue,
                fmt::format("can't flatten dims {} of a mesh", text_of_list(mesh_dims, ", ")))
        .with("mesh", layout->text())
        .with("fix", "name two or more different dims of the mesh");
  }
  const std::uint32_t mask = mask_of(sorted);
  if (std::ranges::find(mesh.flattened_, mask) != mesh.flattened_.end()) return mesh;
  mesh.flattened_groups_.push_back(split(mesh, sorted));
  mesh.flattened_.push_back(mask);
  return mesh;
}

std::unique_ptr<ProcessGroup> MeshRegistry::split(const DeviceMesh& mesh,
                                                  std::span<const std::size_t> mesh_dims) {
  std::unique_ptr<Communicator> communicator =
      world_->communicator().along(*mesh.layout(), mesh_dims);
  if (!communicator) return nullptr;
  return std::make_unique<ProcessGroup>(std::move(communicator), mesh.layout(), mesh_dims,
                                        *mesh.coordinate());
}

const DeviceMesh& MeshRegistry::find(const MeshLayout* layout) const {
  if (last_found_ != nullptr && last_found_->layout() == layout) return *last_found_;
  const auto found = by_layout_.find(layout);
  if (found == by_layout_.end()) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("rank {} never constructed this mesh", world_->rank()))
        .with("mesh", layout->text())
        .with("fix", "construct the mesh on every rank of the world first");
  }
  last_found_ = found->second;
  return *last_found_;
}

const DeviceMesh& device_mesh(const MeshLayout* layout) {
  return current_rank().meshes->find(layout);
}

}  // namespace shardlab
