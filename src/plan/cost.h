// cost.h - prices of single steps and of moves. Bytes travel from step to step, as the
// reference carries them: they are not recomputed from the state.
#pragma once

#include <optional>

#include "plan/graph.h"

namespace shardlab {

inline constexpr double kBytesPerGib = 1024.0 * 1024.0 * 1024.0;

/// "free", "14.7 us", "impossible": a price in words.
std::string price_text(double us);

/// Adds up the steps of one redistribution.
class StepPricer {
 public:
  StepPricer(const DTensorSpec& source, const PlanOptions& options)
      : StepPricer(source, source.num_shards(), options) {}
  /// The same tensor cut into `shards` pieces.
  StepPricer(const DTensorSpec& source, std::int64_t shards, const PlanOptions& options);
  /// Price of this step in microseconds; infinity for steps that propagation must not choose.
  double price(std::size_t mesh_dim, const Placement& from, const Placement& to);

 private:
  const MeshLayout& layout_;
  const PlanOptions& options_;
  double gib_;  ///< of one rank's piece, without rounding for uneven shards
};

/// redistribute_cost of one tensor to place after place: what the planner finds out about one is
/// used for the next. Holds references to both arguments. For one thread.
class MoveCosts {
 public:
  MoveCosts(const DTensorSpec& source, const PlanOptions& options)
      : source_(source), options_(options) {}
  double to(const Placements& target);
  double to(const DTensorSpec& target);

 private:
  double planned(const DTensorSpec& target);

  const DTensorSpec& source_;
  const PlanOptions& options_;
  std::optional<GraphPlans> plans_;  ///< made when something is planned
};

}  // namespace shardlab
