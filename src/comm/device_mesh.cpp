#include "comm/device_mesh.h"

#include "base/error.h"

namespace shardlab {

ProcessGroup& DeviceMesh::group(std::size_t mesh_dim) const {
  if (!coordinate_) {
    fail(ErrorKind::kRuntime, "rank {} is not in mesh {} and has no process group there",
         current_rank().rank, layout_->text());
  }
  check_invariant(mesh_dim < groups_.size(), "a mesh has one group per mesh dim");
  return *groups_[mesh_dim];
}

namespace {

void check_ranks(const MeshLayout& layout, std::int64_t world_size) {
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    const std::int64_t rank = layout.rank_at_index(i);
    if (rank < world_size) continue;
    throw Error(ErrorKind::kValue,
                fmt::format("a mesh names rank {} in a world of {} ranks", rank, world_size))
        .with("mesh", layout.text())
        .with("fix", fmt::format("a world of at least {} ranks", rank + 1));
  }
}

// Ranks that agree on all other mesh dims form a group: its first global rank names it. An index in
// the layout would not do: parts of one mesh have layouts of their own, made in the same call.
std::int64_t color_of(const MeshLayout& layout, Coordinate coordinate, std::size_t mesh_dim) {
  coordinate[mesh_dim] = 0;
  return layout.rank_at(coordinate);
}

}  // namespace

const DeviceMesh& MeshRegistry::construct(const MeshLayout* layout) {
  auto& mesh = meshes_[layout];
  if (mesh) return *mesh;
  check_ranks(*layout, world_->size());
  auto fresh = std::make_unique<DeviceMesh>();
  fresh->layout_ = layout;
  fresh->coordinate_ = layout->coordinate_of(world_->rank());
  for (std::size_t dim = 0; dim < layout->ndim(); ++dim) {
    const auto& coordinate = fresh->coordinate_;
    const std::int64_t color = coordinate ? color_of(*layout, *coordinate, dim) : -1;
    const std::int64_t key = coordinate ? (*coordinate)[dim] : 0;
    const std::string& name = layout->names()[dim];
    std::unique_ptr<Communicator> communicator = world_->communicator().split(color, key, name);
    if (communicator) {
      fresh->groups_.push_back(std::make_unique<ProcessGroup>(std::move(communicator), name));
    }
  }
  mesh = std::move(fresh);
  return *mesh;
}

const DeviceMesh& MeshRegistry::find(const MeshLayout* layout) const {
  const auto found = meshes_.find(layout);
  if (found == meshes_.end() || !found->second) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("rank {} never constructed this mesh", world_->rank()))
        .with("mesh", layout->text())
        .with("fix", "construct the mesh on every rank of the world first");
  }
  return *found->second;
}

const DeviceMesh& device_mesh(const MeshLayout* layout) {
  return current_rank().meshes->find(layout);
}

}  // namespace shardlab
