// collective_sums.h - what a rank's collectives add up to, by kind and group.
#pragma once

#include <vector>

#include "sim/report/links.h"
#include "sim/run/run.h"

namespace shardlab {

/// Of the reporting rank. Bytes are what a ring would send; `predicted_us` is what fastest_us says
/// over the scenario's topology, one collective after the other.
struct CollectiveSum {
  CollectiveKind kind = CollectiveKind::kBarrier;
  GroupIdentity group;
  std::int64_t forward = 0, backward = 0;
  double forward_bytes = 0, backward_bytes = 0;
  double predicted_us = 0;
};

/// What predicted times stand on.
std::vector<LinkUsed> links_used(const Run& run);

/// Of one collective of the run, alone; 0 of one that never completed.
double predicted_us(const Run& run, const TraceEvent& event);

/// The words added to a collective that the run ended in.
inline constexpr const char* kNeverCompleted = ", entered, never completed";

/// Sorted by kind, then in order of appearance of the groups.
std::vector<CollectiveSum> collective_sums(const Run& run);

}  // namespace shardlab
