// graph_meshes.h - between the meshes of a graph, which are equal on all its ranks, and the layouts
// of one rank. A part of a mesh is another layout on other ranks; in a graph it is named by the
// mesh that it was cut from.
#pragma once

#include <vector>

#include "mesh/mesh_layout.h"
#include "tensor/tensor.h"
#include "trace/graph.h"

namespace shardlab {

/// The layouts of a graph's meshes on one rank, in its order. Used by that rank.
class GraphMeshes {
 public:
  /// For a capture: `meshes` is filled in as layouts appear.
  GraphMeshes(std::vector<GraphMesh>& meshes, std::int64_t rank);
  /// For a replay: layouts are made in `arena` when they are needed.
  GraphMeshes(const std::vector<GraphMesh>& meshes, std::int64_t rank, Arena& arena);

  /// The number of a layout; a new one gets the next.
  std::int32_t number_of(const MeshLayout* layout);
  /// Fails with Value for a number that the graph does not have, or a part that is none.
  const MeshLayout* layout(std::int32_t number);

  ValueType type_of(const DTensorSpec& spec);
  /// Fails with Value where the type does not fit its mesh.
  const DTensorSpec* spec_of(const ValueType& type);

 private:
  GraphMesh described(const MeshLayout* layout) const;
  const MeshLayout* made(const GraphMesh& mesh);

  std::vector<GraphMesh>* written_ = nullptr;
  const std::vector<GraphMesh>* meshes_;
  std::int64_t rank_;
  Arena* arena_ = nullptr;
  std::vector<const MeshLayout*> layouts_;
};

/// The type of a plain tensor.
ValueType plain_type(const TensorMeta& meta);

}  // namespace shardlab
