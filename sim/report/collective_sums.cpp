// Times are those of plan/predicted_time.h, on the link of the group's mesh dim.
#include "sim/report/collective_sums.h"

#include <algorithm>

#include "plan/cost.h"
#include "plan/predicted_time.h"

namespace shardlab {

namespace {

// The world has no mesh dims: it waits for the slowest dim of the scenario's mesh, and, if it has
// ranks beyond the mesh, for the link between hosts.
Link link_of(const Run& run, const GroupIdentity& group) {
  const Topology& topology = run.propagator->plans().options().topology;
  if (group.layout != nullptr) return topology.slowest(*group.layout, group.mesh_dims);
  InlineVector<std::size_t, 4> all;
  for (std::size_t dim = 0; dim < run.layout->ndim(); ++dim) all.push_back(dim);
  const Link within = topology.slowest(*run.layout, all);
  const Link beyond;
  return group.size > run.layout->size() && beyond.gbps < within.gbps ? beyond : within;
}

}  // namespace

double predicted_us(const Run& run, const TraceEvent& event) {
  if (!event.completed) return 0;
  const CollectiveRecord& record = event.collective;
  const Topology& topology = run.propagator->plans().options().topology;
  return predicted_us(topology, record.kind, record.bytes / kBytesPerGib, record.group.size,
                      link_of(run, record.group));
}

std::vector<LinkUsed> links_used(const Run& run) {
  return links_of(*run.layout, run.propagator->plans().options().topology);
}

std::vector<CollectiveSum> collective_sums(const Run& run) {
  std::vector<CollectiveSum> sums;
  for (const TraceEvent& event : run.events) {
    if (event.kind != TraceEvent::Kind::kCollective) continue;
    const CollectiveRecord& record = event.collective;
    auto sum = std::ranges::find_if(sums, [&](const CollectiveSum& known) {
      return known.kind == record.kind && known.group == record.group;
    });
    if (sum == sums.end()) {
      sums.push_back({.kind = record.kind, .group = record.group});
      sum = std::prev(sums.end());
    }
    const bool forward = event.pass == Pass::kForward;
    ++(forward ? sum->forward : sum->backward);
    (forward ? sum->forward_bytes : sum->backward_bytes) += record.sent_bytes;
    sum->predicted_us += predicted_us(run, event);
  }
  std::ranges::stable_sort(
      sums, [](const CollectiveSum& a, const CollectiveSum& b) { return a.kind < b.kind; });
  return sums;
}

Cost cost_of(const Run& run) {
  Cost cost{.peak_bytes = run.memory.largest().bytes};
  for (const CollectiveSum& sum : collective_sums(run)) {
    cost.collectives += sum.forward + sum.backward;
    cost.sent_bytes += sum.forward_bytes + sum.backward_bytes;
    cost.predicted_us += sum.predicted_us;
  }
  return cost;
}

}  // namespace shardlab
