// timed_communicator.h - times at which each rank of a world called its communicator last, heard
// there of a failure, and ended: for measurements of the runtime around a failure.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sim/world/world.h"

namespace shardlab::bench {

using Clock = std::chrono::steady_clock;

/// Written by the rank alone; read when the run is over.
struct RankTimes {
  Clock::time_point entered;               ///< of its last call, on any group
  std::optional<Clock::time_point> told;   ///< a call threw the verdict
  std::optional<Clock::time_point> threw;  ///< its program; set by TimedWorld::body alone
  Clock::time_point ended;                 ///< its program left the world
};

/// Outlives the run.
class TimedWorld {
 public:
  explicit TimedWorld(std::int64_t ranks) : ranks_(static_cast<std::size_t>(ranks)) {}
  CommunicatorDecorator decorator();
  /// The program, with the time at which it throws on a rank.
  std::function<void(RankContext&)> body(std::function<void(RankContext&)> program);
  const std::vector<RankTimes>& ranks() const { return ranks_; }

 private:
  std::vector<RankTimes> ranks_;
};

}  // namespace shardlab::bench
