// library_calls.h - recorded calls that are no ops of aten: collectives on plain tensors, and
// FSDP's copies around them.
#pragma once

#include <string_view>

#include "mesh/mesh_layout.h"
#include "schema/argument.h"
#include "sim/record/json.h"

namespace shardlab {

/// A call of this recorded name ("c10d.allreduce_.default") is one of them.
bool is_library_call(std::string_view op);
/// The mesh of one dim that a group along no dim of a mesh has, by its ranks: "0,2".
const MeshLayout* recorded_group(Arena& arena, const std::string& ranks);
/// Runs it on the running rank. Arguments are in schema order; a group is a text, a dim's name of
/// `mesh`, empty for all ranks, or a recorded_group() that has been constructed; `out` are the
/// tensors of the keyword of that name.
///   fails  as the collective or the ops do
Results run_library_call(std::string_view op, const Arguments& args, const ArgumentList& out,
                         const MeshLayout* mesh);

}  // namespace shardlab
