// source_of_pieces.h - pieces that ranks took by their number out of a value that all of them have:
// put together they have to be that value again. Pure: numbers in, labels out. Private to the files
// that verify.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mesh/spec.h"
#include "sim/verify/labels/label.h"

namespace shardlab {

/// A value of the program on one device, under its name.
struct NamedWhole {
  std::string name;
  GlobalValue value;
};

/// The value that pieces come from.
struct SourceOfPieces {
  std::size_t index = 0;       ///< among the named ones
  std::optional<Label> other;  ///< the label under which the pieces make it, if not their own
};

/// The first of `wholes` that the pieces make exactly when they are put together by `spec`, else
/// the first that they make under another label. `held` by mesh index; `claimed` is their value by
/// `spec`. Only pieces that differ from each other show their places; nothing for others, nor for
/// terms.
std::optional<SourceOfPieces> source_of_pieces(const DTensorSpec& spec,
                                               const std::vector<GlobalValue>& held,
                                               const GlobalValue& claimed,
                                               const std::vector<NamedWhole>& wholes);

/// The same for a value that was put together already, in the order of the mesh, from pieces of one
/// tensor dim over all mesh dims.
std::optional<SourceOfPieces> source_of_mixed(const MeshLayout& layout, const GlobalValue& got,
                                              const std::vector<NamedWhole>& wholes);

/// Pieces of a named value, of which each rank has the one that belongs `places` before it.
struct ShiftedPieces {
  std::size_t index = 0;  ///< among the named ones
  Label label;            ///< of the pieces at their right places
  std::size_t mesh_dim = 0;
  std::int64_t places = 0;  ///< along it, in a circle; below 0: after it
};

/// The first of `wholes` whose pieces `held`, by mesh index, are in this way, within `relative` as
/// in label_of(). Nothing of terms, and of pieces that do not differ from each other.
std::optional<ShiftedPieces> shifted_pieces(const MeshLayout& layout,
                                            const std::vector<GlobalValue>& held,
                                            const std::vector<NamedWhole>& wholes, double relative);

}  // namespace shardlab
