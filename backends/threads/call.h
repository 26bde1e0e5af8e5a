// call.h - one rank's part of one collective: what it brings, and where its result goes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rank_context.h"
#include "comm/communicator.h"

namespace shardlab::threads {

class Group;

/// Lives on the caller's stack, or in its pending Work; the caller leaves it alone until the round
/// is over. The last rank to arrive reads all calls of the round and fills in all results.
struct Call {
  CollectiveKind kind = CollectiveKind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  const Tensor* x = nullptr;  ///< settled; null or undefined: nothing is brought
  std::int64_t dim = 0;       ///< all_to_all: that of the cut
  Lengths lengths;
  std::int64_t concat_dim = 0;  ///< all_to_all
  Lengths concat_lengths;
  std::int64_t root = -1;  ///< source or destination, group rank
  std::int64_t to = -1;    ///< permute
  std::int64_t from = -1;
  const TensorMeta* expected = nullptr;  ///< broadcast, scatter, permute: what arrives
  std::span<const SendRecv> exchange;
  std::string_view bytes;
  std::int64_t color = 0;
  std::int64_t key = 0;
  std::string_view name;  ///< of the group that a split makes

  Device* device = nullptr;
  SourcePosition position;
  const char* op_name = nullptr;  ///< of the op that communicates, or null

  // Results.
  BufferRef result;
  std::vector<Tensor> received;       ///< batch
  std::vector<std::string> gathered;  ///< all_gather_bytes
  Group* group = nullptr;             ///< split
  std::int64_t group_rank = 0;
};

/// "all_gather(f32[4,3], dim 0, lengths 4,4,2)".
std::string signature(const Call& call);

/// Whether two ranks of a group may meet in these calls; what only pairs must agree on is left out.
bool compatible(const Call& a, const Call& b);
/// Whether the calls of all ranks, by group rank, fit together.
bool consistent(std::span<Call* const> calls);

}  // namespace shardlab::threads
