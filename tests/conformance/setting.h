// setting.h - where the conformance cases run: schedulers x world sizes x groups. A backend that
// passes them all moves data as the door promises.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/process_group.h"
#include "sim/schedule/schedulers.h"

namespace shardlab {

/// What one rank sees of one group.
struct Seat {
  ProcessGroup& group;
  std::int64_t rank;                    ///< in the group
  std::int64_t size;                    ///< of the group
  std::span<const std::int64_t> ranks;  ///< global, in group order
};

/// Runs `body` on every rank of worlds of 1, 2, 3 and 8 ranks, for each of: the world; each dim of
/// a 2-d mesh (where one fits); a mesh whose rank array is permuted and leaves ranks out. The
/// scheduler `pool` runs them with one worker and with three.
void on_all_groups(SchedulerKind scheduler, const std::function<void(const Seat&)>& body);

/// A number for element `index` that global rank `rank` brings; exact in every dtype.
inline double brought(std::int64_t rank, std::int64_t index) {
  return static_cast<double>((rank * 5 + index * 3) % 7);
}

/// Lengths of `size` ranks: "even", "uneven" (some zero), "one" (only the last has any), "zero".
std::vector<std::int64_t> lengths_of(std::string_view kind, std::int64_t size);
inline constexpr std::string_view kLengthKinds[] = {"even", "uneven", "one", "zero"};

}  // namespace shardlab
