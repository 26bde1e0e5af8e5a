// cost.h - prices of single steps and of moves. The size in bytes is carried from step to
// step, as in the reference: it is not recomputed from the state.
#pragma once

#include "plan/plan.h"

namespace shardlab {

inline constexpr double kBytesPerGib = 1024.0 * 1024.0 * 1024.0;

/// Sums of prices differ by less, relatively, where they are added in another order.
inline constexpr double kPriceRounding = 1e-9;

/// "free", "14.7 us", "impossible": a price in words.
std::string price_text(double us);

/// Adds up the steps of one redistribution.
class StepPricer {
 public:
  StepPricer(const DTensorSpec& source, const PlanOptions& options)
      : StepPricer(source, source.num_shards(), options) {}
  /// The same tensor cut into `shards` pieces.
  StepPricer(const DTensorSpec& source, std::int64_t shards, const PlanOptions& options);
  /// Pieces that are `times` as large as the source's.
  StepPricer(const DTensorSpec& source, const PlanOptions& options, double times);
  /// Price of this step in microseconds; infinity for steps that propagation must not choose.
  double price(std::size_t mesh_dim, const Placement& from, const Placement& to);

 private:
  const MeshLayout& layout_;
  const PlanOptions& options_;
  double gib_;  ///< of one rank's piece, without rounding for uneven shards
};

/// redistribute_cost of one tensor to many placements in turn. Holds references to both arguments.
class MoveCosts {
 public:
  MoveCosts(const DTensorSpec& source, const PlanOptions& options)
      : source_(source), options_(options) {}
  double to(const Placements& target) const;
  double to(const DTensorSpec& target) const;
  /// Lower bound of the cost of a move to these placements, in default orders or in others. Plans
  /// nothing.
  double at_least(const Placements& target, bool default_orders) const;
  /// The same of one mesh dim that becomes `to`. Sums over mesh dims are bounds, too.
  double at_least(std::size_t mesh_dim, const Placement& to) const;

 private:
  double planned(const DTensorSpec& target) const;
  bool has_bounds() const;

  const DTensorSpec& source_;
  const PlanOptions& options_;
};

}  // namespace shardlab
