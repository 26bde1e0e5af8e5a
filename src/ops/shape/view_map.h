// view_map.h - the origin of the dims of a view's result in the dims of its input, and the effect
// of a view on placements. Pure arithmetic on global shapes: no tensor, no coordinate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mesh/placement.h"

namespace shardlab {

/// The origin of one output dim.
struct DimSource {
  enum class Kind : std::uint8_t {
    kNew,        ///< no input dim: size 1, or made by a broadcast of nothing
    kInput,      ///< input dim `inputs[0]` as it is
    kFlatten,    ///< all of `inputs` (two or more, adjacent), the last one fastest
    kSplit,      ///< part `part` of the flattened `inputs` cut into `group` (no 1 among them)
    kBroadcast,  ///< input dim `inputs[0]` of size 1, repeated
    kRepeat,     ///< input dim `inputs[0]` written several times in a row
  };
  Kind kind = Kind::kNew;
  Dims inputs;
  Dims group;
  std::size_t part = 0;

  bool operator==(const DimSource&) const = default;
  static DimSource fresh() { return {}; }
  static DimSource input(std::int64_t dim) { return {Kind::kInput, {dim}, {}, 0}; }
};

/// One entry per output dim.
using ViewMap = std::vector<DimSource>;

/// Groups the dims of a reshape so that each group holds equally many elements on both sides.
/// `to` has no -1. Sizes of 0 are fine: a dim of size 0 is mapped to nothing.
ViewMap map_reshape(std::span<const std::int64_t> from, std::span<const std::int64_t> to);
/// `to` may hold -1 for "as it is"; dims are aligned at the right.
ViewMap map_expand(std::span<const std::int64_t> from, std::span<const std::int64_t> to);
/// `dims`: per output dim its input dim, not negative.
ViewMap map_permute(std::span<const std::int64_t> dims);
/// All dims of a tensor of `ndim` dims but those in `removed`.
ViewMap map_remove(std::size_t ndim, std::span<const std::int64_t> removed);
/// A dim of size 1 before input dim `position`.
ViewMap map_unsqueeze(std::size_t ndim, std::int64_t position);
/// `repeats` per output dim, aligned at the right.
ViewMap map_repeat(std::size_t ndim, std::span<const std::int64_t> repeats);
/// The last dim gets a pair (real, imaginary) behind it.
ViewMap map_view_as_real(std::span<const std::int64_t> shape);

/// The action on an input sharding that the view cannot carry over.
enum class ViewPolicy : std::uint8_t {
  kStrict,        ///< an error: a view never moves data
  kRedistribute,  ///< the input is gathered on that mesh dim first
};

/// The placements that the input must have, and those that the result then has; both one per mesh
/// dim.
struct ViewPlacements {
  Placements inputs;
  Placements outputs;
};

/// Placements of the input (as it has to be) and of the output, one per mesh dim. Partials pass.
/// A shard of a dim that is flattened behind others becomes a strided shard, whose split factor is
/// the length of the dims to its left, as left over by the earlier mesh dims.
///   fails   Runtime: a sharded dim would vanish or be cut unevenly (kStrict)
///           Value: a sharded dim of size 1 is expanded
ViewPlacements propagate_view(const Placements& placements, std::span<const std::int64_t> shape,
                              const ViewMap& map, std::span<const std::int64_t> mesh_sizes,
                              ViewPolicy policy);

}  // namespace shardlab
