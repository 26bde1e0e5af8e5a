// world.h - runs a function on every rank of a world, or on one rank of each class of ranks that
// behave the same, and returns the outcome.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/shared/fabric_log.h"
#include "base/rank_context.h"
#include "comm/forwarding_communicator.h"
#include "comm/verdict.h"
#include "mesh/mesh_layout.h"
#include "sim/schedule/schedulers.h"
#include "sim/world/backends.h"
#include "sim/world/rank_questions.h"
#include "sim/world/sharing_device.h"

namespace shardlab {

/// The text of a class in reports, by the index of its run: equal texts are one class.
using ClassText = std::function<std::string(std::size_t index)>;

/// The ranks and their shared parts. All objects outlive the run.
struct WorldOptions {
  std::int64_t ranks = 1;  ///< may exceed the mesh
  SchedulerOptions schedule = {};
  /// `schedule` does not matter if each rank has a process, and if ranks are run by class.
  std::string backend = "threads";
  /// If each rank has a process: whether calls are compared before data moves, some 50 us each.
  CollectiveChecks checks = CollectiveChecks::kOn;
  /// The program, as a line of text that is the same on all ranks: "long.toml (156 bytes, 7ca1b2)".
  /// If each rank has a process, another line on one of them is refused before anything runs.
  /// Empty for the program's file, by its digest, and the words of its command line.
  std::string program = {};
  /// The device of each rank; called once per rank, in rank order, before any rank starts. One
  /// device may serve all ranks. Classes of ranks have that of rank 0, which has shapes only.
  std::function<Device&(std::int64_t rank)> device = {};
  /// For spmd(), if `device` is empty: "cpu" or "cuda" (devices.h), one for each process.
  std::string device_type = "cpu";
  /// For that device: whether kernels whose operands are equal on several ranks of this process run
  /// once, as `shardlab run` does. Results are equal bit for bit; a write to one copies it first.
  KernelSharing sharing = KernelSharing::kOn;
  std::uint64_t seed = 0;
  Propagator* propagator = nullptr;  ///< shared by all ranks
  PlanCache* plans = nullptr;        ///< shared by all ranks
  MixedTensors mixed = MixedTensors::kRefuse;
  ImplicitRedistribution implicit = ImplicitRedistribution::kAllow;
  /// The fabric between ranks. None: kNonblocking, but that a poll waits and is true. Backends
  /// other than `threads` have kBuffered alone.
  std::optional<Transport> transport = {};
  bool lazy_groups = false;  ///< of a transport: communicators are made at first use
  FabricLog* log = nullptr;  ///< of `threads`: what ranks post and wait for; may be null
  CommunicatorDecorator communicator = {};  ///< none: the backend's own

  // For a backend that runs one rank of each class.
  const MeshLayout* layout = nullptr;  ///< all groups are along its dims; in an arena of its own
  std::size_t most_classes = 4096;
  ClassText seen_by =
      {};  ///< classes with equal texts are one class in the result; none: all differ
};

/// The ranks of one run of the body.
struct RunsFor {
  /// The rank's number; for a class a number from 0 on.
  std::size_t index = 0;
  RankQuestions* questions = nullptr;  ///< asked where ranks of a class may differ; null: one rank
};

/// The function that runs on each rank.
using RankBody = std::function<void(RankContext&, const RunsFor&)>;

/// A rank that threw, or a class of ranks.
struct RankFailure {
  std::int64_t rank = 0;  ///< the first one
  Error error;
  /// The exception of the rank, if it was not an Error.
  std::exception_ptr foreign;
  /// The rank only heard that another one had failed (B-7), or repeats the common verdict.
  bool consequence = false;
  std::vector<std::int64_t> ranks = {};  ///< of a class: all of them
};

/// Ranks with the same calls, and the run for them.
struct RankClass {
  std::size_t index = 0;  ///< of the run for the class
  std::int64_t first_rank = 0;
  std::int64_t size = 0;
  std::string where;  ///< "dp 0-7, tp 0-63"; empty: the whole mesh
};

/// The outcome of a run: all failures, and the reason why the world stopped.
struct WorldResult {
  std::vector<RankFailure> failures;  ///< by rank
  std::optional<Verdict> verdict;     ///< empty when no rank failed
  std::vector<RankClass> classes;     ///< in the order in which they ran; that of rank 0 first
  std::vector<std::size_t> class_of;  ///< by rank; empty without classes and beyond 4,096 ranks
  std::uint64_t steps = 0;            ///< ranks that a scheduler has drawn, in all
  bool ok() const { return failures.empty(); }
  /// All failures in one: the primary one, as the lowest rank that failed with it reports it; part
  /// "failed" names all ranks that failed with it, "others" the failures that further ranks had on
  /// their own, "ranks" the place where each waited. Only when !ok().
  Error merged() const;
  /// Throws merged() unless ok(); an exception of another type than Error is thrown as it was.
  void rethrow() const;
};

/// Whether its ranks are on the fabric of `threads`.
bool has_fabric(const WorldOptions& options);

/// A world may run many bodies, one after another; it keeps stacks between runs. Each run starts
/// with fresh contexts, groups and meshes. If each rank has a process of its own, all processes
/// make the same worlds, run the own rank's body, and get the same result.
class World {
 public:
  /// Fails with Value for fewer than one rank, an unknown backend, a missing device, a job of
  /// another number of processes, or classes of ranks without a layout.
  explicit World(WorldOptions options);

  /// Runs `body` on every rank and returns when all have ended. Pending results end with the run.
  /// On a backend that runs classes, `body` runs once for each class, one after the other, on the
  /// calling thread. Ranks are of one class when they have the same local shapes for every spec
  /// that was interned and every state of every plan, are both inside or both outside of the mesh,
  /// and give the same answer to every question.
  ///   fails  Runtime: the system cannot carry so many ranks, known before any rank starts;
  ///          Unsupported: more than `most_classes` classes;
  ///          Value: a process has another version, program or options
  WorldResult run(const RankBody& body);
  /// The same for a body that does not need the ranks of its run.
  WorldResult run(const std::function<void(RankContext&)>& body);

  const WorldOptions& options() const { return options_; }

 private:
  WorldOptions options_;
  const BackendEntry& backend_;
  process::ControlChannel* channel_ = nullptr;  ///< to the other processes, if there are any
  std::unique_ptr<Scheduler> scheduler_;
};

/// One run of a world of its own.
WorldResult run_world(WorldOptions options, const RankBody& body);
WorldResult run_world(WorldOptions options, const std::function<void(RankContext&)>& body);

}  // namespace shardlab
