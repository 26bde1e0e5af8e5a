// exchange.h - a collective of a program that gives a new plain tensor, and its gradient, which is
// a collective, too. Private to src/api.
#pragma once

#include <cstdint>
#include <vector>

#include "base/collective_kind.h"
#include "base/reduce_op.h"
#include "comm/process_group.h"
#include "mesh/dtensor.h"

namespace shardlab {

struct Exchange {
  CollectiveKind kind;
  ProcessGroup* group;
  ReduceOp op = ReduceOp::kSum;
  std::int64_t dim = 0;        ///< of pieces that are put together or dealt out
  std::int64_t split_dim = 0;  ///< all_to_all: that is cut
  std::int64_t root = 0;       ///< broadcast, reduce: place in the group
  /// Lengths for each group rank, along the cut dim and along `dim`, if the kind deals out or
  /// gathers.
  std::vector<std::int64_t> sent = {}, received = {};
};

/// all_reduce of sum and avg, reduce_scatter of sum, and kinds that move pieces: others are not
/// linear.
bool carries_gradients(CollectiveKind kind, ReduceOp op);
/// The result is on the tape if gradients are recorded and x takes part: its gradient is the
/// adjoint of the exchange, as in torch's functional collectives (B-23). Every rank of the group
/// then runs it in backward, and a rank that has no gradient leaves the others waiting.
DTensor exchanged(const Exchange& exchange, const DTensor& x);

}  // namespace shardlab
