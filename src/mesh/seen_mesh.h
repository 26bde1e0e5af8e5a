// seen_mesh.h - a mesh as it is told of next to others.
#pragma once

#include <string>

#include "mesh/mesh_layout.h"

namespace shardlab {

/// A mesh of some ranks of `whole` that are evenly apart, as a part of its root; else the mesh
/// itself.
const MeshLayout& seen_from(const MeshLayout& whole, const MeshLayout& layout);

/// "{dp:2, tp:2} over ranks 0, 1, 2, 3"; of many ranks the first.
std::string text_with_ranks(const MeshLayout& layout);

}  // namespace shardlab
