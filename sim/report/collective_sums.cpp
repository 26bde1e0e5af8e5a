#include "sim/report/collective_sums.h"

#include <algorithm>

#include "plan/topology.h"

namespace shardlab {

namespace {

Link link_of(const ScenarioResult& result, const std::string& group) {
  const Topology& topology = result.propagator->plans().options().topology;
  if (const auto dim = result.layout->find_dim(group)) return topology.link(*result.layout, *dim);
  return {};
}

double predicted_us(const CollectiveRecord& record, const Link& link) {
  const std::int64_t n = record.group_size;
  if (n <= 1) return 0;
  const double bytes = static_cast<double>(product(record.input_shape) * item_bytes(record.dtype));
  const double gib = bytes / (1024.0 * 1024.0 * 1024.0);
  switch (record.kind) {
    case CollectiveKind::kAllReduce:
      return all_reduce_us(gib, n, link);
    case CollectiveKind::kAllGather:
      return all_gather_us(gib * static_cast<double>(n), n, link);
    case CollectiveKind::kReduceScatter:
      return reduce_scatter_us(gib, n, link);
    case CollectiveKind::kAllToAll:
      return all_to_all_us(gib, n, link);
    default:
      return all_gather_us(gib, n, link);
  }
}

}  // namespace

std::vector<CollectiveSum> collective_sums(const ScenarioResult& result) {
  std::vector<CollectiveSum> sums;
  for (const TraceEvent& event : result.events) {
    if (event.kind != TraceEvent::Kind::kCollective) continue;
    const CollectiveRecord& record = event.collective;
    auto sum = std::find_if(sums.begin(), sums.end(), [&](const CollectiveSum& known) {
      return known.kind == record.kind && known.group == record.group;
    });
    if (sum == sums.end()) {
      sums.push_back({.kind = record.kind, .group = record.group, .group_size = record.group_size});
      sum = std::prev(sums.end());
    }
    const bool forward = event.pass == Pass::kForward;
    ++(forward ? sum->forward : sum->backward);
    (forward ? sum->forward_bytes : sum->backward_bytes) += record.sent_bytes;
    sum->predicted_us += predicted_us(record, link_of(result, record.group));
  }
  std::stable_sort(sums.begin(), sums.end(),
                   [](const CollectiveSum& a, const CollectiveSum& b) { return a.kind < b.kind; });
  return sums;
}

}  // namespace shardlab
