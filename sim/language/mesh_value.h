// mesh_value.h - what programs do with `mesh`, and placements given by mesh dim.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/process_group.h"
#include "sim/language/interpreter.h"

namespace shardlab {

/// mesh["tp"], mesh["dp", "tp"]: the part of the mesh that holds this rank. `told_rank` is the
/// number that the program is told, which in the single-device run is not the running rank's.
MeshValue slice_mesh(const MeshValue& mesh, const Value& key, std::int64_t told_rank);

/// A placement, or its text: S(0), R, "P(sum)".
///   fails  Value
Placement placement_of(const Value& value);

/// Placements for `layout` from keywords (tp=S(0)): mesh dims that are not named keep `base`.
///   fails  Value: a keyword that is not a mesh dim, naming the nearest
Placements placements_of(const MeshLayout& layout, Placements base,
                         const std::vector<std::pair<std::string, Value>>& keywords,
                         std::string_view function);

/// A reduction by value or by name: sum, "avg", max.
///   fails  Value
ReduceOp reduction_of(const Value& value);

/// The group of a collective: None is the world, a text a mesh dim of the scenario's mesh, a mesh
/// of one dim that dim.
///   fails  Value: unknown dim. Runtime: this rank is outside of the mesh
ProcessGroup& group_of(const Interpreter& interpreter, const Value& group);

/// The mesh that a `mesh=` argument names; the scenario's without one.
const MeshLayout* layout_of(const Interpreter& interpreter, const Value& mesh);

}  // namespace shardlab
