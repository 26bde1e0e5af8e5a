// mesh_graph.h - a recording's program with a plan as a graph on the mesh, and as the text of a
// scenario.
#pragma once

#include <optional>
#include <string>

#include "sim/graph/graph_scenario.h"
#include "sim/remesh/plan.h"

namespace shardlab {

struct MeshGraph {
  ProgramGraph graph;
  GraphNames names;
};

/// `dtype`: of all floats; none: as recorded.
///   fails  Unsupported: a call with an argument that programs cannot say, with its place
MeshGraph mesh_graph(const CallProgram& program, const PlanMesh& mesh, const MeshPlan& plan,
                     std::optional<DType> dtype = std::nullopt);

/// The same as a scenario file. Inputs are tensors of the recording, as if the file were next to
/// it.
std::string mesh_scenario(const CallProgram& program, const PlanMesh& mesh, const MeshPlan& plan,
                          std::optional<DType> dtype = std::nullopt);

}  // namespace shardlab
