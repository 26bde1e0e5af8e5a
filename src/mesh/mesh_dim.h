// mesh_dim.h - dims of a mesh as programs name them. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "mesh/mesh_layout.h"

namespace shardlab {

/// Fails with Value where the mesh has no such dim; `asker` is the function that was called with
/// it. A number counts from the end where it is negative.
std::size_t mesh_dim_named(const MeshLayout& layout, std::string_view name, std::string_view asker);
std::size_t mesh_dim_numbered(const MeshLayout& layout, std::int64_t number,
                              std::string_view asker);

}  // namespace shardlab
