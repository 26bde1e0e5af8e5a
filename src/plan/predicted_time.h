// predicted_time.h - the predicted time of a program's collective. Plans are chosen by another
// figure, the reference's price (plan/topology.h).
#pragma once

#include <cstdint>

#include "plan/topology.h"

namespace shardlab {

/// In microseconds: the time of a ring, or where it is less that of a tree, as NCCL chooses. A tree
/// has as many steps as n has binary digits; it serves all_reduce, and, with its leaves apart
/// (PAT), all_gather and reduce_scatter. `gib` is `size` of ring_sends.
double fastest_us(CollectiveKind kind, double gib, std::int64_t n, const Link& link);

/// The same for a program with this topology: its own price if it has one.
double predicted_us(const Topology& topology, CollectiveKind kind, double gib, std::int64_t n,
                    const Link& link);

}  // namespace shardlab
