// mesh_graph.h - a recording's program with a plan, on the mesh, as the text of a scenario.
#pragma once

#include <optional>
#include <string>

#include "sim/remesh/plan.h"

namespace shardlab {

/// Inputs are tensors of the recording, as if the file were next to it. `dtype`: of all floats;
/// nullopt: each as it was recorded.
///   fails  Unsupported: a call with an argument that programs cannot say, with its place
std::string mesh_scenario(const CallProgram& program, const PlanMesh& mesh, const MeshPlan& plan,
                          std::optional<DType> dtype = std::nullopt);

}  // namespace shardlab
