// mesh_value.h - operations of programs on `mesh`, and placements given by mesh dim.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "comm/process_group.h"
#include "sim/language/run/interpreter.h"

namespace shardlab {

/// A mesh of the program: that of `reported`, which is the layout that it sees. With a `root`, it
/// was cut from that mesh; else it is a new one.
MeshValue mesh_value(Interpreter& interpreter, const MeshLayout* reported,
                     std::shared_ptr<MeshRoot> root = nullptr);
/// The same, constructed on this rank and kept: every rank of the world calls this.
MeshValue made_mesh(Interpreter& interpreter, const MeshLayout* reported,
                    std::shared_ptr<MeshRoot> root = nullptr);

/// mesh["tp"], mesh["dp", "tp"]: the part of the mesh that holds this rank, in the single-device
/// run the part that holds the rank number that the program sees. Names of flattened dims may be
/// among those of a mesh that was not cut.
///   fails  Value: an unknown name, another order; Runtime: dims that overlap
MeshValue slice_mesh(Interpreter& interpreter, const MeshValue& mesh, const Value& key);

/// One dim over all dims of `mesh`, called `name` or, if that is empty, by their names joined;
/// constructed on this rank, so that every rank of the world calls this. Redistributions on the
/// mesh may from now on run one collective over these dims.
///   fails  Value: the name is taken
MeshValue flattened(Interpreter& interpreter, const MeshValue& mesh, std::string name);

/// Warns of dims of several ranks to which a program's `backend_override` gives the backend fake:
/// in PyTorch collectives over them do nothing.
void warn_of_fake(const MeshLayout& layout, const Value& backends);

/// The dim of a mesh that a program gives by name or by number, also from the end.
///   fails  Value
std::size_t mesh_dim(const MeshLayout& layout, const Value& dim);

/// The program's view of a value that depends on the rank: its value on the rank that runs, or a
/// value by rank if one run represents several. `at` is pure and outlives the call.
Value by_rank(const Interpreter& interpreter, std::function<Value(std::int64_t rank)> at);
/// The place of this rank along one dim of a mesh that it is in.
Value coordinate_along(const Interpreter& interpreter, const MeshValue& mesh, std::size_t dim);
/// For each other rank, the group that corresponds to one group of the running rank. Pure functions
/// of a rank, which outlive the call. Used by one thread.
struct GroupsByRank {
  /// In the group's order; made once for each group, and there as long as a copy of this is.
  std::function<const std::vector<std::int64_t>&(std::int64_t rank)> ranks;
  std::function<std::int64_t(std::int64_t rank)> number;  ///< equal for ranks of one group alone
};
GroupsByRank groups_by_rank(const Interpreter& interpreter, const GroupValue& group);

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

/// The group of a collective: a process group; None is the world, a text a mesh dim of the
/// scenario's mesh, a mesh of one dim that dim.
///   fails  Value: unknown dim
GroupValue group_value_of(const Interpreter& interpreter, const Value& group);
/// Its communicator.
///   fails  Runtime: this rank is outside of the mesh, or of the group
ProcessGroup& group_of(const Interpreter& interpreter, const GroupValue& group);
inline ProcessGroup& group_of(const Interpreter& interpreter, const Value& group) {
  return group_of(interpreter, group_value_of(interpreter, group));
}
/// "group ranks_0_2 (ranks 0, 2)": for messages.
std::string group_text(const Interpreter& interpreter, const GroupValue& group);
/// Makes a group of these ranks, in their order; every rank of the world calls this.
///   fails  Value: a rank that the world does not have, or one that is named twice
GroupValue new_group(Interpreter& interpreter, std::vector<std::int64_t> ranks);

/// The mesh that a `mesh=` argument names; without one that of `with mesh:`, else the scenario's.
const MeshLayout* layout_of(const Interpreter& interpreter, const Value& mesh);

}  // namespace shardlab
