// run_specs.h - the placements that a run shows, and the meshes that they are on.
#pragma once

#include <functional>
#include <vector>

#include "sim/judge/scenario_run.h"

namespace shardlab {

/// Visits the specs of values, then those of events in their order; some more than once.
void visit_specs(const ScenarioResult& result,
                 const std::function<void(const DTensorSpec&)>& visit);

/// The scenario's mesh, and those of the program with tensors, in order.
std::vector<const MeshLayout*> meshes_of(const ScenarioResult& result);

}  // namespace shardlab
