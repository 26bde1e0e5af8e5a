// plan.h - placements of a recorded program's values on a mesh: plans by name, from the use of
// weights in calls and not from names of modules, and the user's own placements by path.
#pragma once

#include <string>
#include <vector>

#include "sim/remesh/layouts.h"

namespace shardlab {

/// The names of plans: megatron, sequence, fsdp, hsdp, fsdp+tp, replicate.
const std::vector<std::string>& plan_names();

/// `name` may be empty: everything whole on every rank, except for `layouts`.
///   megatron   tp is the last mesh dim; batches are cut over the others
///   sequence   the same; between layers the sequence is cut over tp
///   fsdp       parameters and batches are cut over all mesh dims, parameters gathered on use
///   hsdp       the same, but parameters are whole over the first mesh dim
///   fsdp+tp    megatron on the last mesh dim, fsdp on the others
///   replicate  parameters are whole, batches cut over all mesh dims
///   fails  Value: no such plan; a placing or style that fits nothing
MeshPlan plan_of(const CallProgram& program, const PlanMesh& mesh, const std::string& name,
                 const PlanLayouts& layouts);

}  // namespace shardlab
