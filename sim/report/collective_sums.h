// collective_sums.h - sums over a rank's collectives, by kind and group.
#pragma once

#include <vector>

#include "sim/report/links.h"
#include "sim/run/run.h"

namespace shardlab {

/// Collectives of the reporting rank. Bytes are those that a ring would send; `predicted_us` is the
/// sum of fastest_us over the scenario's topology, one collective after the other.
struct CollectiveSum {
  CollectiveKind kind = CollectiveKind::kBarrier;
  GroupIdentity group;
  std::int64_t forward = 0, backward = 0;
  double forward_bytes = 0, backward_bytes = 0;
  double predicted_us = 0;
};

/// The links that predicted times assume.
std::vector<LinkUsed> links_used(const Run& run);

/// The time of one collective of the run, alone; 0 for one that never completed.
double predicted_us(const Run& run, const TraceEvent& event);

/// The words added to a collective that the run ended in.
inline constexpr const char* kNeverCompleted = ", entered, never completed";

/// Sorted by kind, then in order of appearance of the groups.
std::vector<CollectiveSum> collective_sums(const Run& run);

/// The collectives of the reporting rank, one after the other, and the most memory that a rank
/// held.
struct Cost {
  std::int64_t collectives = 0;
  double sent_bytes = 0;
  double predicted_us = 0;
  std::int64_t peak_bytes = 0;
};
Cost cost_of(const Run& run);

}  // namespace shardlab
