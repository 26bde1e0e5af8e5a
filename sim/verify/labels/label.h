// label.h - what the ranks of a mesh hold of one plain value, found by laying their tensors beside
// the whole one of a single device. Pure: numbers in, placements out. Private to the files that
// verify.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mesh/mesh_layout.h"
#include "mesh/placement.h"
#include "sim/verify/global_value.h"

namespace shardlab {

/// One placement for each mesh dim, as a distributed tensor would have: the same value, a piece of
/// a tensor dim (also of uneven lengths), a term of a sum, average, maximum or minimum.
struct Label {
  std::vector<Placement> placements;
  /// Mesh dims that cut one tensor dim cut it in the order of the mesh turned round.
  bool turned = false;
  /// As a program writes them: a dim that is cut in that order is strided.
  std::vector<Placement> written(const MeshLayout& layout) const;
  bool operator==(const Label&) const = default;
};

/// Elements that all ranks may hold together for a label to be looked for.
inline constexpr std::int64_t kMostLabelled = std::int64_t{1} << 18;

/// The first label under which `held`, one for each rank of `layout` by mesh index, make `whole`;
/// replicas come before pieces, pieces before terms. Numbers this close, relative to the largest,
/// are taken as equal. Nothing where none fits, or where there is too much to look at.
std::optional<Label> label_of(const std::vector<GlobalValue>& held, const GlobalValue& whole,
                              const MeshLayout& layout, double relative);

/// "each rank holds its piece of dim 1, which tp cuts, and a term of a sum over dp".
std::string text_of(const Label& label, const MeshLayout& layout);

}  // namespace shardlab
