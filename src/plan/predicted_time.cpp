// Small messages are bound by latency, in which a tree has as many steps as n has binary digits;
// large ones by the amount that each rank sends, in which a ring is the best.
#include "plan/predicted_time.h"

#include <algorithm>
#include <cmath>

namespace shardlab {
namespace {

// Trees against rings, from the figures by which NCCL chooses (2.27, src/graph/tuning.cc): a start,
// a step as a multiple of a ring's hop (over a network 5.0 us of a tree and 14.0 / 3.5 us of PAT to
// 2.7 us of a ring), and the share of the link's bandwidth that is used. The 2.8 us that NCCL's PAT
// adds for each rank, a property of its present kernel and not of trees, are left out.
constexpr double kTreeStartUs = 6.8, kTreeStep = 5.0 / 2.7, kTreeBandwidth = 0.92;
constexpr double kPatStartUs = 8, kPatStep = 4.0 / 2.7, kPatBandwidth = 0.75;

}  // namespace

double fastest_us(CollectiveKind kind, double gib, std::int64_t n, const Link& link) {
  const double ring = collective_us(kind, gib, n, link);
  const double steps = std::ceil(std::log2(static_cast<double>(std::max<std::int64_t>(n, 1))));
  if (kind == CollectiveKind::kAllReduce) {
    const double up_and_down = kTreeStartUs + 2 * steps * kTreeStep * link.us +
                               2 * gib / (kTreeBandwidth * link.gbps) * 1e6;
    return std::min(ring, up_and_down);
  }
  if (kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter) {
    const double apart = kPatStartUs + steps * kPatStep * link.us +
                         ring_sends(kind, gib, n) / (kPatBandwidth * link.gbps) * 1e6;
    return std::min(ring, apart);
  }
  return ring;
}

double predicted_us(const Topology& topology, CollectiveKind kind, double gib, std::int64_t n,
                    const Link& link) {
  return topology.price ? topology.price->us(kind, gib, n, link) : fastest_us(kind, gib, n, link);
}

}  // namespace shardlab
