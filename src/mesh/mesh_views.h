// mesh_views.h - meshes that are cut from the ranks of another one: slices, flattened, unflattened
// and concatenated dims. Pure, and equal on all ranks; part_of() alone asks for a rank.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mesh/mesh_layout.h"

namespace shardlab {

/// A mesh as sizes and strides in its root: all its parts at once. A value.
struct MeshView {
  const MeshLayout* root = nullptr;  ///< MeshLayout::root()
  Dims shape;
  std::vector<MeshSteps> steps;    ///< by dim
  std::vector<std::string> names;  ///< MeshLayout::names()
  bool named = true;               ///< false where the names were made up
};

MeshView view_of(const MeshLayout& layout);
/// The part of a view that holds `rank`; for a rank outside of the root the first one. Equal
/// layouts are one pointer.
///   fails  Runtime: a name that occurs twice
const MeshLayout* part_of(const MeshView& view, std::int64_t rank);

/// The named dims, in this order. `flats` are views of one dim whose names may be among them.
///   fails  Value: an unknown name, dims whose strides do not descend; Runtime: dims that overlap
MeshView sliced(const MeshView& view, std::span<const std::string> names,
                std::span<const MeshView> flats = {});
/// One dim over all dims, order kept; without a name theirs, joined with "_".
MeshView flattened(const MeshView& view, std::string_view name);
/// One dim as several, row-major.
///   fails  Value: sizes that do not multiply to that of the dim; Runtime: another number of names
MeshView unflattened(const MeshView& view, std::size_t mesh_dim, const Dims& sizes,
                     std::span<const std::string> names);
/// The dims of all, side by side.
///   fails  Runtime: none, views of other ranks, dims that overlap
MeshView concatenated(std::span<const MeshView> views);

/// The dims of another mesh over the same ranks that make one mesh dim, outermost first, each with
/// its step in the coordinate of that dim.
using MeshAxis = std::vector<std::pair<std::size_t, std::int64_t>>;
/// The mesh dims of `layout` as dims of `fine`; empty if they are not.
std::optional<std::vector<MeshAxis>> axes_on(const MeshLayout& fine, const MeshLayout& layout);
/// The mesh of fewest dims on which both meshes have axes; its dims have the names of `a`, or these
/// and a number. Null if there is none, or it has more than kMostMeshDims.
const MeshLayout* refinement(const MeshLayout& a, const MeshLayout& b);

/// The place of a rank along these steps; empty for a rank outside of the root.
std::optional<std::int64_t> place_along(const MeshLayout& root, const MeshSteps& steps,
                                        std::int64_t rank);
/// The first of the ranks along these steps through `rank`, as an index of the root; of a rank
/// outside of it 0.
std::int64_t first_along(const MeshLayout& root, const MeshSteps& steps, std::int64_t rank);
/// These ranks, in order.
std::vector<std::int64_t> ranks_along(const MeshLayout& root, const MeshSteps& steps,
                                      std::int64_t rank);

/// The part of `layout` along the named dims that holds `coordinate`, as sliced(). All dims:
/// `layout` itself.
const MeshLayout* slice_layout(const MeshLayout* layout, std::span<const std::string> names,
                               const Coordinate& coordinate);
/// The same as `rank` sees it. Fails with Runtime for a rank outside when a dim is left out: no
/// part is its own.
const MeshLayout* slice_layout(const MeshLayout* layout, std::span<const std::string> names,
                               std::int64_t rank);
/// One dim over all of `names`' dims, order kept; named by joining with "_" unless `name` is given.
const MeshLayout* flatten_layout(const MeshLayout* layout, std::span<const std::string> names,
                                 const Coordinate& coordinate, std::string_view name);
/// The same as `rank` sees it; for a rank outside as slice_layout.
const MeshLayout* flatten_layout(const MeshLayout* layout, std::span<const std::string> names,
                                 std::int64_t rank, std::string_view name);

}  // namespace shardlab
