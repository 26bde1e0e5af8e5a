// groups.h - this rank's place in a mesh, and process groups, by the names of torch.distributed. A
// rank only holds groups that it is in; a null pointer takes the place of torch's NON_GROUP_MEMBER.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_line.h"
#include "comm/process_group.h"

namespace shardlab {

struct OnPieces;  // schema/op_row.h

/// The coordinate of this rank; empty outside of the mesh.
std::optional<Coordinate> get_coordinate(const MeshLayout* mesh);
/// Its entry for one dim; of a mesh of one dim that needs no name.
///   fails  Value: no such dim, or no mesh. Runtime: outside of the mesh, or no dim named of
///   several
std::int64_t get_local_rank(const MeshLayout* mesh, std::string_view dim = "",
                            SourceLine place = {});
/// The group along one dim that holds this rank. The mesh has been constructed.
///   fails  as get_local_rank
ProcessGroup& get_group(const MeshLayout* mesh, std::string_view dim = "", SourceLine place = {});
/// In a program that computes an op on pieces (ops/core/factor_rule.h): this rank's groups along
/// the mesh dims that cut the dim of this letter, first cut first; none where it is not cut.
std::vector<ProcessGroup*> groups_of(const OnPieces& call, char letter);
/// All ranks of the run.
ProcessGroup& world_group();
/// A mesh of one dim over these dims of `mesh`, constructed, with the part of it that holds this
/// rank; called `name` or by the names joined with "_". Redistributions on `mesh` may from now on
/// run one collective over these dims. Every rank of the world calls this.
///   fails  as flatten_mesh and flatten_layout
const MeshLayout* flattened_mesh(const MeshLayout* mesh, const std::vector<std::string>& dims,
                                 std::string_view name = "", SourceLine place = {});

/// "ptd:" and the group's name, as torch tags groups that users did not tag.
std::string get_group_tag(const ProcessGroup& group);
/// Whether this rank is in no such group: null.
bool rank_not_in_group(const ProcessGroup* group);
/// Global ranks in group order; without a group those of the world.
std::vector<std::int64_t> get_process_group_ranks(const ProcessGroup* group = nullptr);
/// The size of the world ("world") or of this rank's group along the dim of `mesh` of this name.
///   fails  Value: neither
std::int64_t get_group_size_by_name(const MeshLayout* mesh, std::string_view name);
/// The name of the first of these groups that has these ranks, in any order, and this tag (empty:
/// any).
///   fails  Value: none has
std::string resolve_group_name_by_ranks_and_tag(const MeshLayout* mesh,
                                                std::span<const std::int64_t> ranks,
                                                std::string_view tag);

}  // namespace shardlab
