// A mesh dim's link is the one named for it, else it follows from the number of devices per host: a
// dim whose ranks are all on one host is fast. A collective waits for the slowest link it uses.
#include "plan/topology.h"

#include <optional>
#include <vector>

namespace shardlab {
namespace {

constexpr Link kSameHost = {87.7, 0.6};

/// The mesh dims in which the coordinates of these ranks differ; empty when one is outside.
std::optional<InlineVector<std::size_t, 4>> crossed_dims(const MeshLayout& mesh,
                                                         const std::vector<std::int64_t>& ranks) {
  InlineVector<std::size_t, 4> crossed;
  const std::optional<Coordinate> first = mesh.coordinate_of(ranks.front());
  for (std::size_t dim = 0; dim < mesh.ndim(); ++dim) {
    for (const std::int64_t rank : ranks) {
      const std::optional<Coordinate> coordinate = mesh.coordinate_of(rank);
      if (!first || !coordinate) return std::nullopt;
      if ((*coordinate)[dim] == (*first)[dim]) continue;
      crossed.push_back(dim);
      break;
    }
  }
  return crossed;
}

// The link that the names give, if any. A separate function, since few topologies have names, and
// links are looked up for every candidate of a decision.
[[gnu::noinline]] std::optional<Link> named_link(const Topology& topology, const MeshLayout& layout,
                                                 std::size_t mesh_dim) {
  const auto found = topology.links.find(layout.names()[mesh_dim]);
  if (found != topology.links.end()) return found->second;
  if (topology.mesh == nullptr || topology.mesh == &layout) return std::nullopt;
  const Coordinate start(layout.ndim(), 0);
  const auto crossed = crossed_dims(*topology.mesh, layout.group_ranks(mesh_dim, start));
  if (!crossed || crossed->empty()) return std::nullopt;
  return topology.slowest(*topology.mesh, *crossed);
}

}  // namespace

Link Topology::link(const MeshLayout& layout, std::size_t mesh_dim) const {
  if (!links.empty()) {
    if (const std::optional<Link> named = named_link(*this, layout, mesh_dim)) return *named;
  }
  std::int64_t devices = 1;
  for (std::size_t dim = mesh_dim; dim < layout.ndim(); ++dim) devices *= layout.size(dim);
  return devices > devices_per_host ? Link{} : kSameHost;
}

Link Topology::slowest(const MeshLayout& layout, std::span<const std::size_t> mesh_dims) const {
  std::optional<Link> slowest;
  for (const std::size_t dim : mesh_dims) {
    if (layout.size(dim) == 1) continue;
    const Link own = link(layout, dim);
    if (!slowest || own.gbps < slowest->gbps) slowest = own;
  }
  return slowest.value_or(Link{});
}

}  // namespace shardlab
