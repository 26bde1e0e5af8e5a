// setting.h - settings of the conformance cases: backends x schedulers x world sizes x groups. A
// backend that passes them all moves data as the door promises. The environment variable
// SHARDLAB_STAGE chooses one: "threads" (on scheduler pool), "threads/pool-3" (on three OS
// threads), "mpi", "mpi/checked", ...; with one rank per process all processes run the same cases.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/process_group.h"
#include "sim/world/world.h"

namespace shardlab {

/// The view that one rank has of one group.
struct Seat {
  ProcessGroup& group;
  std::int64_t rank;                    ///< in the group
  std::int64_t size;                    ///< of the group
  std::span<const std::int64_t> ranks;  ///< global, in group order
};

/// Runs `body` on every rank of worlds of 1, 2, 3 and 8 ranks (with one rank per process: of the
/// job's size), for each of: the world; each dim of a 2-d mesh (where one fits); a mesh whose rank
/// array is permuted and leaves ranks out.
void on_all_groups(const std::function<void(const Seat&)>& body);
/// Runs `body` on a world of this size; a job of another size skips it, which is reported.
void on_world_of(std::int64_t ranks, const std::function<void(RankContext&)>& body);

/// Runs `body` on worlds of 2, 3 and 8 ranks (with one rank per process: of the job's size).
void on_all_worlds(const std::function<void(RankContext&)>& body);

/// For worlds that fail. Runs `body` on worlds of 2, 3 and 8 ranks (with one rank per process: of
/// the job's size) and shows `check` how each has ended, which all processes see in the same way.
void on_failing_worlds(const std::function<void(RankContext&)>& body,
                       const std::function<void(std::int64_t ranks, const WorldResult&)>& check);
/// Whether ranks hear of calls that do not fit; else the case is skipped, which is reported.
bool calls_are_compared();
/// Whether ranks pass messages: over nccl where calls are compared. Else the case is skipped, which
/// is reported.
bool passes_messages();

/// A number for element `index` that global rank `rank` brings; exact in every dtype.
inline double brought(std::int64_t rank, std::int64_t index) {
  return static_cast<double>((rank * 5 + index * 3) % 7);
}

/// Lengths of `size` ranks: "even", "uneven" (some zero), "one" (only the last has any), "zero".
std::vector<std::int64_t> lengths_of(std::string_view kind, std::int64_t size);
inline constexpr std::string_view kLengthKinds[] = {"even", "uneven", "one", "zero"};

}  // namespace shardlab
