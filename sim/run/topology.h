// topology.h - the links that a scenario names, as planners price them.
#pragma once

#include <vector>

#include "plan/topology.h"
#include "sim/scenario/scenario.h"

namespace shardlab {

/// What a dim does not say is as without it.
Topology topology_of(const std::vector<TopologyDim>& dims, const MeshLayout* layout);

}  // namespace shardlab
