// joined_along.h - pieces of one tensor dim that a program puts together along another one, as an
// all_gather into one tensor does. Pure: numbers in, dims out. Private to the files that verify.
#pragma once

#include <optional>

#include "mesh/mesh_layout.h"
#include "sim/verify/global_value.h"

namespace shardlab {

struct JoinedAlong {
  std::int64_t pieces = 0;
  std::size_t cut = 0;     ///< the dim of the whole value that is cut into them
  std::size_t joined = 0;  ///< the dim along which they follow each other
};

/// The dims with which `got`, of any shape, has the elements of `whole`: cut evenly into as many
/// pieces as a mesh dim or the mesh has ranks, which follow each other along another dim. Numbers
/// this close, relative to the largest, count as equal. Nothing if no two dims fit, and if the
/// order is that of the whole.
std::optional<JoinedAlong> joined_along(const GlobalValue& got, const GlobalValue& whole,
                                        const MeshLayout& layout, double relative);

}  // namespace shardlab
