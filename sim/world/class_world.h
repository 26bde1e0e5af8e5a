// class_world.h - a world of shapes only: a function runs once for each class of ranks that behave
// the same, so that a million ranks cost as much as a handful.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rank_context.h"
#include "comm/forwarding_communicator.h"
#include "comm/verdict.h"
#include "mesh/mesh_layout.h"
#include "sim/world/rank_questions.h"

namespace shardlab {

/// The world and what its ranks share. All objects outlive the run.
struct ClassWorldOptions {
  const MeshLayout* layout = nullptr;  ///< all groups lie along its dims; in an arena of its own
  std::int64_t ranks = 1;              ///< may exceed the mesh
  Device* device = nullptr;            ///< shape-only
  std::uint64_t seed = 0;
  Propagator* propagator = nullptr;
  PlanCache* plans = nullptr;
  MixedTensors mixed = MixedTensors::kRefuse;
  ImplicitRedistribution implicit = ImplicitRedistribution::kAllow;
  CommunicatorDecorator communicator;  ///< none: the backend's own
  std::size_t most_classes = 4096;
};

/// Ranks that did the same, and the run that stands for them.
struct RankClass {
  std::size_t index = 0;  ///< of the run that stands for it
  std::int64_t first_rank = 0;
  std::int64_t size = 0;
  std::string where;  ///< "dp 0-7, tp 0-63"; empty: the whole mesh
};

/// How a world of shapes went.
struct ClassWorldResult {
  std::vector<RankClass> classes;  ///< in the order in which they ran; the mesh's first rank first
  std::vector<std::size_t> class_of;  ///< by rank; left empty beyond 4,096 ranks
  std::optional<Error> error;         ///< what the world failed of: a program's own, or the verdict
  std::optional<Verdict> verdict;
};

/// Says which classes behaved the same in the run: classes with equal texts are one class in the
/// result.
using ClassText = std::function<std::string(std::size_t index)>;

/// Runs `body` on one rank of each class, one after the other, on the calling thread. Ranks are of
/// one class when they have the same local shapes for every spec that was interned and every state
/// of every plan, are both inside or both outside of the mesh, and give the same answer to every
/// question.
///   fails  Unsupported: more classes than `most_classes`
ClassWorldResult run_classes(
    const ClassWorldOptions& options,
    const std::function<void(RankContext&, RankQuestions&, std::size_t index)>& body,
    const ClassText& alike);

}  // namespace shardlab
