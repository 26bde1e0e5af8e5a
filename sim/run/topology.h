// topology.h - the links that a scenario names, as planners price them.
#pragma once

#include <vector>

#include "plan/topology.h"
#include "sim/scenario/scenario.h"

namespace shardlab {

/// A figure that a dim does not give is the default one.
Topology topology_of(const std::vector<TopologyDim>& dims, const MeshLayout* layout);

}  // namespace shardlab
