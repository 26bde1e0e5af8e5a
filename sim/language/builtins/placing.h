// placing.h - parameters that a program places on the mesh, here and on one device. Private to the
// builtins.
#pragma once

#include <functional>
#include <string_view>

#include "sim/language/run/interpreter.h"

namespace shardlab {

/// The result of `on_mesh` on the tensor. On one device the same elements: in memory of their own,
/// and as a leaf of its own, if that is so on the ranks.
DTensor placed_parameter(Interpreter& in, const DTensor& tensor,
                         const std::function<DTensor()>& on_mesh);

/// Checks that a list of placements has one for each mesh dim.
///   fails  Value
void check_count(const Placements& placements, const MeshLayout& layout, std::string_view function);

}  // namespace shardlab
