// links.h - the links that predicted times assume: one for each mesh dim.
#pragma once

#include <string>
#include <vector>

#include "plan/topology.h"

namespace shardlab {

/// The link of a mesh dim of two ranks or more.
struct LinkUsed {
  std::string mesh_dim;
  Link link;
  bool given = false;  ///< by the scenario or the command line; else assumed
};

std::vector<LinkUsed> links_of(const MeshLayout& layout, const Topology& topology);

/// "dp 25 GB/s, 8 us a hop; tp, pp 19.3 GB/s, 2.7 us a hop (assumed)": dims with equal links
/// together. Empty if no dim has two ranks.
std::string links_text(const std::vector<LinkUsed>& links);

}  // namespace shardlab
