// rank_life.h - one rank of any world: its context, its groups, and its outcome. Private to the
// files that run worlds.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/rank_context.h"
#include "sim/world/world.h"

namespace shardlab {

/// The words for an exception that says nothing.
inline constexpr const char* kUnknownException = "an exception of unknown type";

/// The exception of a rank; neither if it reached its end.
struct RankOutcome {
  std::optional<Error> error;
  std::exception_ptr foreign;  ///< if it was not an Error: as it was thrown
};

/// While it lives, the calling thread or fiber is the rank.
class RankLife {
 public:
  /// `run`: a number of its own for each run of a world, equal for its ranks; 0 if the rank stands
  /// for others. `scheduler`: null if nothing runs at the same time as the rank.
  RankLife(const WorldOptions& options, std::uint64_t run, std::int64_t rank, Device* device,
           Scheduler* scheduler);
  ~RankLife() { set_current_rank(outside_); }
  RankLife& operator=(RankLife&&) = delete;

  /// Runs `body`, with the world group over the result of `communicator`. If that or the body
  /// throws, `failed` gets the reason, while the rank's groups are alive: their end may have to
  /// wait for ranks that must hear first. Throws nothing.
  RankOutcome run(const std::function<std::unique_ptr<Communicator>()>& communicator,
                  const std::function<void(RankContext&)>& body,
                  const std::function<void(const Error& cause)>& failed = nullptr);

 private:
  const WorldOptions& options_;
  RankContext context_;
  RankContext* outside_;
};

}  // namespace shardlab
