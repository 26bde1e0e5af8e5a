// device_mesh.h - a layout with this rank's view of it (M-6): coordinate and one process group per
// mesh dim. Constructing one is collective over the world, outsiders included, and makes all
// communicators then, in mesh-dim order; nothing is split lazily, which would deadlock on real
// backends.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "comm/process_group.h"
#include "mesh/mesh_layout.h"

namespace shardlab {

class DeviceMesh {
 public:
  const MeshLayout* layout() const { return layout_; }
  /// Empty on ranks outside the mesh.
  const std::optional<Coordinate>& coordinate() const { return coordinate_; }
  bool participates() const { return coordinate_.has_value(); }
  /// This rank's group along a mesh dim. Fails with Runtime outside the mesh.
  ProcessGroup& group(std::size_t mesh_dim) const;

 private:
  friend class MeshRegistry;
  const MeshLayout* layout_ = nullptr;
  std::optional<Coordinate> coordinate_;
  std::vector<std::unique_ptr<ProcessGroup>> groups_;
};

/// The meshes of one rank, by layout. Executor and dispatcher look meshes up here; a layout without
/// a mesh on this rank is an error naming the layout.
class MeshRegistry {
 public:
  explicit MeshRegistry(ProcessGroup& world) : world_(&world) {}
  /// The mesh of `layout`; makes it and its communicators when absent, which is collective over the
  /// world. Fails with Value when the layout names a rank outside the world.
  const DeviceMesh& construct(const MeshLayout* layout);
  /// Fails with Runtime naming the layout when it was never constructed on this rank.
  const DeviceMesh& find(const MeshLayout* layout) const;

 private:
  ProcessGroup* world_;
  std::unordered_map<const MeshLayout*, std::unique_ptr<DeviceMesh>> meshes_;
};

/// The mesh of `layout` on the running rank.
const DeviceMesh& device_mesh(const MeshLayout* layout);

}  // namespace shardlab
