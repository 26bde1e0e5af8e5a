#include "plan/topology.h"

namespace shardlab {
namespace {

/// What starting any collective takes, in microseconds.
constexpr double kStartUs = 6.6;
/// A direct all-to-all is priced above the all-gather that could replace it.
constexpr double kAllToAllPenaltyUs = 1.0;
constexpr Link kSameHost = {87.7, 0.6};

double ring_us(double gib, std::int64_t hops, std::int64_t n, const Link& link) {
  const auto hop_count = static_cast<double>(hops);
  return kStartUs + hop_count * link.us +
         gib * hop_count / static_cast<double>(n) / link.gbps * 1e6;
}

}  // namespace

Link Topology::link(const MeshLayout& layout, std::size_t mesh_dim) const {
  if (!links.empty()) {
    const auto found = links.find(layout.names()[mesh_dim]);
    if (found != links.end()) return found->second;
  }
  std::int64_t devices = 1;
  for (std::size_t dim = mesh_dim; dim < layout.ndim(); ++dim) devices *= layout.size(dim);
  return devices > devices_per_host ? Link{} : kSameHost;
}

double all_gather_us(double gathered_gib, std::int64_t n, const Link& link) {
  return ring_us(gathered_gib, n - 1, n, link);
}

double reduce_scatter_us(double input_gib, std::int64_t n, const Link& link) {
  return ring_us(input_gib, n - 1, n, link);
}

double all_reduce_us(double input_gib, std::int64_t n, const Link& link) {
  return ring_us(input_gib, 2 * (n - 1), n, link);
}

double all_to_all_us(double local_gib, std::int64_t n, const Link& link) {
  return ring_us(local_gib, n - 1, n, link) + kAllToAllPenaltyUs;
}

}  // namespace shardlab
