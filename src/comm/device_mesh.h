// device_mesh.h - a layout with this rank's view of it (M-6): coordinate and one process group per
// mesh dim. Constructing one is collective over the world, outsiders included, and makes all
// communicators then, in mesh-dim order; nothing is split lazily, which would deadlock on real
// backends. A mesh that was cut from known ones has their groups, and its ranks do not meet.
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
  /// A group that holds every rank of the mesh, and perhaps others of the world. Null where a mesh
  /// that was cut from others has none: its ranks send messages on the world.
  ProcessGroup* everyone() const;

 private:
  friend class MeshRegistry;
  const MeshLayout* layout_ = nullptr;
  std::optional<Coordinate> coordinate_;
  // One group for each mesh dim; empty on ranks outside of the mesh.
  std::vector<ProcessGroup*> groups_;
  std::vector<std::unique_ptr<ProcessGroup>> own_groups_;  ///< those that no other mesh has
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
  MeshRegistry& operator=(MeshRegistry&&) = delete;

  /// The mesh of `layout`; makes it and its communicators when absent, which is collective over the
  /// world, unless every dim is one of a known mesh of the same root. Fails with Value when the
  /// layout names a rank outside the world.
  const DeviceMesh& construct(const MeshLayout* layout);
  /// The mesh whose dims have these groups, of which this rank is a member; none on ranks outside.
  /// No rank meets another.
  const DeviceMesh& construct_of(const MeshLayout* layout, std::vector<ProcessGroup*> groups);
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
  /// The mesh that has this dim of a layout, and its number there; null without one. The same on
  /// all ranks.
  std::pair<const DeviceMesh*, std::size_t> owner_of(const MeshLayout& layout,
                                                     std::size_t mesh_dim) const;
  /// Makes the groups of a mesh, or finds them in others. Returns whether the ranks have met.
  bool make_groups(DeviceMesh& mesh);
  void find_everyone(DeviceMesh& mesh, bool met);
  std::unique_ptr<DeviceMesh> begun(const MeshLayout* layout) const;
  const DeviceMesh& keep(std::unique_ptr<DeviceMesh> mesh);

  ProcessGroup* world_;
  std::vector<std::unique_ptr<DeviceMesh>> meshes_;  ///< in the order of their construction
  std::unordered_map<const MeshLayout*, DeviceMesh*> by_layout_;
  mutable const DeviceMesh* last_found_ = nullptr;  // most programs have one mesh
  InFlight in_flight_;
};

/// The mesh of `layout` on the running rank.
const DeviceMesh& device_mesh(const MeshLayout* layout);

}  // namespace shardlab
