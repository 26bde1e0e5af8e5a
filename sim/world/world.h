// world.h - runs a function on every rank of a simulated world and says how it went.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rank_context.h"
#include "comm/forwarding_communicator.h"
#include "comm/verdict.h"
#include "sim/schedule/schedulers.h"
#include "sim/world/backends.h"

namespace shardlab {

struct WorldOptions {
  std::int64_t ranks = 1;
  SchedulerOptions schedule;
  std::string backend = "threads";  ///< with one rank per process, `schedule` does not matter
  CollectiveChecks checks = CollectiveChecks::kOff;
  /// The device of each rank; called once per rank, in rank order, before any rank starts. One
  /// device may serve all ranks. Devices outlive the run.
  std::function<Device&(std::int64_t rank)> device;
  std::uint64_t seed = 0;
  Propagator* propagator = nullptr;  ///< shared by all ranks
  PlanCache* plans = nullptr;        ///< shared by all ranks
  MixedTensors mixed = MixedTensors::kRefuse;
  ImplicitRedistribution implicit = ImplicitRedistribution::kAllow;
  CommunicatorDecorator communicator;  ///< none: the backend's own
};

/// A rank that threw.
struct RankFailure {
  std::int64_t rank = 0;
  Error error;
  /// What the rank threw, if it was not an Error.
  std::exception_ptr foreign;
  /// The rank only learned that another one had failed (B-7), or repeats the common verdict.
  bool consequence = false;
};

/// How a run went: all failures, and why the world stopped.
struct WorldResult {
  std::vector<RankFailure> failures;  ///< by rank
  std::optional<Verdict> verdict;     ///< empty when no rank failed
  bool ok() const { return failures.empty(); }
  /// All failures in one: the primary one, as told by the lowest rank that failed with it; part
  /// "failed" names all ranks that failed with it, "others" the failures that further ranks had on
  /// their own, "ranks" says who waited where. Only when !ok().
  Error merged() const;
  /// Throws merged() unless ok(); an exception of another type than Error is thrown as it was.
  void rethrow() const;
};

/// A world may run many bodies, one after another; it keeps stacks between runs. Each run starts
/// with fresh contexts, groups and meshes. Where each rank has a process of its own, all processes
/// make the same worlds, run the own rank's body, and get the same result.
class World {
 public:
  /// Fails with Value for fewer than one rank, an unknown backend, a missing device, or a job of
  /// another number of processes.
  explicit World(WorldOptions options);

  /// Runs `body` on every rank and returns when all have ended. Pending results end with the run.
  /// Fails with Runtime, before any rank starts, when the system cannot carry so many ranks.
  WorldResult run(const std::function<void(RankContext&)>& body);

  const WorldOptions& options() const { return options_; }

 private:
  WorldOptions options_;
  const BackendEntry& backend_;
  process::ControlChannel* channel_ = nullptr;  ///< to the other processes, if there are any
  std::unique_ptr<Scheduler> scheduler_;
};

/// One run of a world of its own.
WorldResult run_world(WorldOptions options, const std::function<void(RankContext&)>& body);

}  // namespace shardlab
