// predicted_time.h - what a collective of a program is predicted to take. Plans are chosen by
// another figure, the reference's price (plan/topology.h).
#pragma once

#include <cstdint>

#include "plan/topology.h"

namespace shardlab {

/// In microseconds: the time of a ring, or where it is less that of a tree, as NCCL chooses. A tree
/// has as many steps as n has binary digits; it serves all_reduce, and, with its leaves apart
/// (PAT), all_gather and reduce_scatter. `gib` is what ring_sends takes as `size`.
double fastest_us(CollectiveKind kind, double gib, std::int64_t n, const Link& link);

/// The same as a program with this topology has it: where it brings its own price, that.
double predicted_us(const Topology& topology, CollectiveKind kind, double gib, std::int64_t n,
                    const Link& link);

}  // namespace shardlab
