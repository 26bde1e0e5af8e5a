// placings.h - the ways to place the inputs of one call on a mesh. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mesh/placement.h"
#include "sim/proof/read_samples.h"

namespace shardlab {

/// Placements of each input, one for each mesh dim.
using Placing = std::vector<Placements>;

/// The choices for an input along one mesh dim: whole, cut along each of its dims, and pending in
/// each way that its elements allow.
Placements choices_of(const SampleInput& input);

/// The number of placings that are tried: all of them if there are at most `all`, else `drawn` of
/// them.
struct PlacingCount {
  std::uint64_t all, drawn;
};

/// Placings of the sample on a mesh of `mesh_dims` dims: all of them in a fixed order, or as many
/// as are drawn from `seed`. One kind of pending reduction for a tensor (X-41).
std::vector<Placing> placings_of(const OpSample& sample, std::size_t mesh_dims, PlacingCount number,
                                 std::uint64_t seed);

/// True when all pieces of a tensor with these placements have one size.
bool cuts_evenly(const Dims& shape, const Placements& placements, const Dims& mesh);

/// "S(0) R": the placements along each mesh dim.
std::string placements_text(const Placements& placements);
/// "S(0), R": each input's.
std::string placing_text(const Placing& placing);
/// The opposite of placing_text.
///   fails  Value: another number of inputs or of mesh dims, a word that is no placement
Placing parse_placing(std::string_view text, const OpSample& sample, std::size_t mesh_dims);

}  // namespace shardlab
