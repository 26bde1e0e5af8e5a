// line_types.h - the types of values in the text form of a graph (graph_lines.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mesh/mesh_layout.h"
#include "mesh/type_string.h"
#include "trace/graph.h"

namespace shardlab {

/// On the meshes of one graph. Used by one thread.
class LineTypes {
 public:
  explicit LineTypes(std::vector<GraphMesh> meshes)
      : meshes_(std::move(meshes)), layouts_(meshes_.size()) {}

  /// "f32[8@dp, 64@tp] mesh=1 stride=[1, 8]"
  std::string text(const ValueType& type);
  /// A type string on a mesh of the graph.
  ///   fails  Value: it is malformed, names no dim of that mesh, or there is no such mesh
  ParsedType parsed(std::string_view text, std::int64_t mesh);
  /// The same without mesh dims: a plain tensor.
  ParsedType parsed_plain(std::string_view text);

 private:
  /// Null for one that no mesh can be.
  const MeshLayout* layout(std::int64_t mesh);
  /// The type string, where it expresses all placements and the order; else empty.
  std::string in_type_string(const ValueType& type);

  std::vector<GraphMesh> meshes_;
  Arena arena_;
  std::vector<const MeshLayout*> layouts_;  ///< null: not made yet
};

}  // namespace shardlab
