// route.h - the way of pieces of uneven lengths: NCCL's all_gather and reduce_scatter take even
// ones only. Pure.
#pragma once

#include <cstdint>
#include <span>

namespace shardlab::nccl {

/// The way of pieces from rank to rank.
enum class Route : std::uint8_t {
  kEven,     ///< as they are, by the collective
  kPadded,   ///< each as long as the longest, by the collective
  kGrouped,  ///< as they are, by one group of sends and receives
};

/// Bytes of pieces that move, in elements of the lengths: between hosts where the group spans
/// several (each rank of a host that is sent to fetches a piece for itself, while a ring passes
/// through a host once), else between ranks.
std::int64_t moved(Route route, std::span<const std::int64_t> lengths,
                   std::span<const std::int64_t> hosts);

/// The route that moves fewer elements; padded also where that moves up to a sixteenth more, since
/// one ring takes less than a message for each pair. `hosts` numbers the host of each group rank.
Route route_of(std::span<const std::int64_t> lengths, std::span<const std::int64_t> hosts);

}  // namespace shardlab::nccl
