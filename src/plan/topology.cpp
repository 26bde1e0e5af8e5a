// A collective is priced as a ring over the slowest link it uses: a start, a latency per hop, and
// the bytes each rank sends over the bandwidth (the reference's formulas).
#include "plan/topology.h"

#include <optional>
#include <vector>

namespace shardlab {
namespace {

/// What starting any collective takes, in microseconds.
constexpr double kStartUs = 6.6;
/// A direct all-to-all is priced above the all-gather that could replace it.
constexpr double kAllToAllPenaltyUs = 1.0;
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

}  // namespace

Link Topology::link(const MeshLayout& layout, std::size_t mesh_dim) const {
  if (!links.empty()) {
    const auto found = links.find(layout.names()[mesh_dim]);
    if (found != links.end()) return found->second;
    if (mesh != nullptr && mesh != &layout) {
      const Coordinate start(layout.ndim(), 0);
      const auto crossed = crossed_dims(*mesh, layout.group_ranks(mesh_dim, start));
      if (crossed && !crossed->empty()) return slowest(*mesh, *crossed);
    }
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

double collective_us(CollectiveKind kind, double gib, std::int64_t n, const Link& link) {
  const double us = kStartUs + static_cast<double>(ring_hops(kind, n)) * link.us +
                    ring_sends(kind, gib, n) / link.gbps * 1e6;
  return kind == CollectiveKind::kAllToAll ? us + kAllToAllPenaltyUs : us;
}

}  // namespace shardlab
