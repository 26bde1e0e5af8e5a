// collective_kind.h - the kinds of collectives, and what a ring moves for each. Pure:
// prices, reports and backends know these, and no communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardlab {

/// What ranks do together. Order and numbers mean nothing outside of a process.
enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kScatter,
  kGather,
  kPermute,
  kBatch,
  kAllGatherBytes,
  kBarrier,
  kSplit,
};
/// For tables by kind.
inline constexpr std::size_t kCollectiveKinds =
    static_cast<std::size_t>(CollectiveKind::kSplit) + 1;
/// "all_reduce", "all_gather", ...
std::string_view to_string(CollectiveKind kind);

/// How often a ring of n ranks passes pieces on: 2 (n - 1) times for an all_reduce, once for a
/// permute or a batch, else n - 1 times.
std::int64_t ring_hops(CollectiveKind kind, std::int64_t n);
/// What a ring of n ranks sends from each, on average: an n-th of `size` per hop; a permute or a
/// batch sends all of it at once. `size`, in any unit, is that of the input; of an all_gather and a
/// broadcast that of the whole result; of a permute and a batch what the rank sends.
double ring_sends(CollectiveKind kind, double size, std::int64_t n);

}  // namespace shardlab
