// measure.h - the amounts that the steps of a plan move, rank by rank. Pure; costs time in
// proportion to ranks.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace shardlab {

/// One step, in bytes. Rings: an all-gather sends everything but the piece of the next rank, a
/// reduce-scatter everything but the own piece, an all-reduce 2(n-1)/n of the tensor.
struct StepFigures {
  std::int64_t sent_least = 0, sent_most = 0;  ///< by any rank of the mesh
  std::int64_t received_most = 0;
  std::int64_t peak = 0;  ///< most that a rank holds: its piece before and after
  double us = 0;          ///< predicted, by the largest pieces
  double gbps = 0;        ///< of the slowest link that is used; 0: none
};
/// One entry per step, in order. In O(steps x ranks).
std::vector<StepFigures> measure_steps(const Plan& plan, const Topology& topology);

/// A plan as a whole, in bytes.
struct PlanFigures {
  std::int64_t received = 0;  ///< over the slowest links of the mesh: sum of received_most
  std::int64_t peak = 0;
  double us = 0;
};
/// The figures of all steps of a plan together.
PlanFigures sum_up(const std::vector<StepFigures>& steps, const MeshLayout& layout,
                   const Topology& topology);

/// Bytes that some rank receives over the slowest links of the mesh, whatever the plan. Empty where
/// the planner `bytes` can't search.
std::optional<std::int64_t> received_bound(const DTensorSpec& source, const DTensorSpec& target,
                                           const PlanOptions& options);

}  // namespace shardlab
