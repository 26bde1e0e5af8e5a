// collective_kind.h - the kinds of collectives, and how much a ring moves for each. Pure:
// prices, reports and backends use these without a communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardlab {

/// Operations that ranks do together. Order and numbers have no meaning outside of a process.
enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduce,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kScatter,
  kGather,
  kPermute,
  kBatch,
  kSend,  ///< a message from one rank, which another one receives
  kRecv,
  kAllGatherBytes,
  kBarrier,
  kSplit,
};
/// For tables by kind.
inline constexpr std::size_t kCollectiveKinds =
    static_cast<std::size_t>(CollectiveKind::kSplit) + 1;
/// One rank's side of a message: two ranks of a group meet, not all.
inline bool is_message(CollectiveKind kind) {
  return kind == CollectiveKind::kSend || kind == CollectiveKind::kRecv;
}
/// "all_reduce", "all_gather", ...
std::string_view to_string(CollectiveKind kind);

// A ring cuts a tensor into n pieces and each hop moves one piece between neighbours, so that all
// links work at once: n - 1 hops bring every piece to one rank, or every rank to every piece.
// Inline, since every candidate of a decision is priced with them.

/// Whether it sends all at once, from one rank to another.
inline bool is_single_hop(CollectiveKind kind) {
  return kind == CollectiveKind::kPermute || kind == CollectiveKind::kBatch || is_message(kind);
}
/// Times that a ring of n ranks passes pieces on: 2 (n - 1) for an all_reduce, 1 for a permute, a
/// batch or a message, else n - 1.
inline std::int64_t ring_hops(CollectiveKind kind, std::int64_t n) {
  if (is_single_hop(kind)) return 1;
  return kind == CollectiveKind::kAllReduce ? 2 * (n - 1) : n - 1;
}
/// Amount that each rank of a ring of n sends, on average: an n-th of `size` per hop; a permute or
/// a batch sends all of it at once. `size`, in any unit, is that of the input; of an all_gather and
/// a broadcast that of the whole result; of a permute and a batch what the rank sends.
inline double ring_sends(CollectiveKind kind, double size, std::int64_t n) {
  if (is_single_hop(kind)) return size;
  return size * static_cast<double>(ring_hops(kind, n)) / static_cast<double>(n);
}

}  // namespace shardlab
