// rank_life.h - one rank of any world: its context, its groups, and how it ends. Private to the
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

class Communicator;

/// What a rank threw; neither where it came to its end.
struct RankOutcome {
  std::optional<Error> error;
  std::exception_ptr foreign;  ///< where it was not an Error: as it was thrown
};

/// While it lives, the calling thread or fiber is the rank.
class RankLife {
 public:
  /// `scheduler`: null where nothing runs beside the rank.
  RankLife(const WorldOptions& options, std::int64_t rank, Device* device, Scheduler* scheduler);
  ~RankLife() { set_current_rank(outside_); }
  RankLife(const RankLife&) = delete;
  RankLife& operator=(const RankLife&) = delete;

  /// Runs `body`, with the world group over what `communicator` makes. Where that or the body
  /// throws, `failed` hears why, while the rank's groups are alive: to end them may have to wait
  /// for ranks that must be told first. Throws nothing.
  RankOutcome run(const std::function<std::unique_ptr<Communicator>()>& communicator,
                  const std::function<void(RankContext&)>& body,
                  const std::function<void(const Error& cause)>& failed = nullptr);

 private:
  const WorldOptions& options_;
  RankContext context_;
  RankContext* outside_;
};

}  // namespace shardlab
