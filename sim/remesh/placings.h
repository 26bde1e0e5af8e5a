// placings.h - other layouts that a recorded program may have, as texts of --place.
#pragma once

#include <vector>

#include "sim/recording/advice.h"
#include "sim/remesh/call_program.h"
#include "sim/remesh/mesh_plan.h"

namespace shardlab {

/// Layouts that are one mesh dim away from those of a plan: another tensor dim is cut, or none.
/// None is known to hold or to help.
///   in: w1 is f32[8, 4], [_@tp, _]  ->  w1=[_, _], w1=[_, _@tp]
std::vector<OtherPlacing> other_placings(const CallProgram& program, const PlanMesh& mesh,
                                         const MeshPlan& plan);

}  // namespace shardlab
