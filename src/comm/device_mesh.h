// device_mesh.h - a layout with this rank's view of it (M-6): coordinate and one process group per
// mesh dim. Constructing one is collective over the world, outsiders included, and makes all
// communicators then, in mesh-dim order; nothing is split lazily, which would deadlock on real
// backends.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "comm/in_flight.h"
#include "comm/process_group.h"
#include "mesh/flattened.h"
#include "mesh/mesh_layout.h"

namespace shardlab {

/// One per layout and rank, owned by the rank's MeshRegistry; used by that rank only.
class DeviceMesh {
 public:
  /// The layout outlives the mesh: it lives in an arena.
  const MeshLayout* layout() const { return layout_; }
  /// Empty on ranks outside the mesh.
  const std::optional<Coordinate>& coordinate() const { return coordinate_; }
  bool participates() const { return coordinate_.has_value(); }
  /// This rank's group along a mesh dim. Fails with Runtime outside the mesh.
  ProcessGroup& group(std::size_t mesh_dim) const;
  /// This rank's group along several mesh dims, row-major over them in ascending order. Fails with
  /// Runtime outside the mesh and where these dims were never flattened.
  ProcessGroup& group(std::span<const std::size_t> mesh_dims) const;
  /// The dims over which redistributions may merge their steps.
  const FlattenedDims& flattened() const { return flattened_; }
  /// A group that holds every rank of the mesh, and perhaps others of the world.
  ProcessGroup& everyone() const;

 private:
  friend class MeshRegistry;
  const MeshLayout* layout_ = nullptr;
  std::optional<Coordinate> coordinate_;
  // By mesh dim; empty on ranks outside of the mesh.
  std::vector<std::unique_ptr<ProcessGroup>> groups_;
  FlattenedDims flattened_;
  std::vector<std::unique_ptr<ProcessGroup>> flattened_groups_;  ///< one for each of flattened_
  ProcessGroup* everyone_ = nullptr;
  std::unique_ptr<ProcessGroup> own_everyone_;  ///< when neither the world nor a dim will do
};

/// The meshes of one rank, by layout; they are destroyed in reverse order of their construction, so
/// that the groups of all ranks end in one order. Executor and dispatcher look meshes up here; a
/// layout without a mesh on this rank is an error naming the layout.
class MeshRegistry {
 public:
  explicit MeshRegistry(ProcessGroup& world) : world_(&world) {}
  ~MeshRegistry();
  MeshRegistry(const MeshRegistry&) = delete;
  MeshRegistry& operator=(const MeshRegistry&) = delete;

  /// The mesh of `layout`; makes it and its communicators when absent, which is collective over the
  /// world. Fails with Value when the layout names a rank outside the world.
  const DeviceMesh& construct(const MeshLayout* layout);
  /// Makes the group over several dims of a mesh, when absent; collective over the world. From then
  /// on redistributions may merge steps over these dims. Fails with Value for fewer than two dims
  /// or a dim that the mesh does not have.
  const DeviceMesh& flatten(const MeshLayout* layout, std::span<const std::size_t> mesh_dims);
  bool contains(const MeshLayout* layout) const { return by_layout_.contains(layout); }
  /// Fails with Runtime naming the layout when it was never constructed on this rank.
  const DeviceMesh& find(const MeshLayout* layout) const;
  /// Tensors that collectives of this rank's groups are filling while the program continues.
  InFlight& in_flight() { return in_flight_; }

 private:
  std::unique_ptr<ProcessGroup> split(const DeviceMesh& mesh,
                                      std::span<const std::size_t> mesh_dims);

  ProcessGroup* world_;
  std::vector<std::unique_ptr<DeviceMesh>> meshes_;  ///< in the order of their construction
  std::unordered_map<const MeshLayout*, DeviceMesh*> by_layout_;
  mutable const DeviceMesh* last_found_ = nullptr;  // most programs have one mesh
  InFlight in_flight_;
};

/// The mesh of `layout` on the running rank.
const DeviceMesh& device_mesh(const MeshLayout* layout);

}  // namespace shardlab
