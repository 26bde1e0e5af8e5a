// line_types.h - the types of values in graphs that tests write as lines (graph_lines.h).
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

  /// A type string on a mesh of the graph.
  ///   fails  Value: it is malformed, names no dim of that mesh, or there is no such mesh
  ParsedType parsed(std::string_view text, std::int64_t mesh);
  /// The same without mesh dims: a plain tensor.
  ParsedType parsed_plain(std::string_view text);

 private:
  /// Null for one that no mesh can be.
  const MeshLayout* layout(std::int64_t mesh);

  std::vector<GraphMesh> meshes_;
  Arena arena_;
  std::vector<const MeshLayout*> layouts_;  ///< null: not made yet
};

}  // namespace shardlab
