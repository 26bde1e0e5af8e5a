// propagator.h - from a call with given input specs to the decision (K-22 to K-33; propagate
// README).
// Decisions are pure functions of rank-invariant data: computed once per process, shared by all
// ranks.
#pragma once

#include <memory>

#include "plan/plan.h"
#include "schema/op_strategy.h"

namespace shardlab {

// The reasons for a decision, as data.

/// A rule row, or a combination of rows, that was dropped.
struct RejectedRow {
  std::string row;  ///< "(S(0), R) -> S(0)" on one mesh dim, or a whole-mesh combination
  std::string reason;
};

/// The reasons for a decision. Made on request only: a decision is a pure function, so it can be
/// made again at any time.
struct DecisionRecord {
  std::vector<OpStrategy> strategies;  ///< one, or one per list element (foreach)
  std::vector<int> selected;           ///< index into each
  std::vector<RejectedRow> rejected;
  std::string choice;  ///< the rule of the selection that decided, in words
  OutputSharding sharding;
};

class OpRegistry;

/// Answers calls with decisions and keeps them. Shared by all ranks of a process; thread-safe but
/// for clear().
class Propagator {
 public:
  /// `registry` outlives the propagator. `capacity`: decisions kept, and forgotten ones not freed.
  Propagator(const OpRegistry& registry, PlanOptions options, std::size_t capacity = 1u << 16);
  ~Propagator();

  /// The ops that it decides.
  const OpRegistry& registry() const { return *registry_; }
  /// Whether a refusal names better placements of the inputs ("nearest"), which takes as long as
  /// some dozens of decisions. Off where refusals are counted, not read.
  void set_advice(bool given) { advice_ = given; }
  /// Plans under the same options as the decisions' prices.
  PlanCache& plans() { return plans_; }

  /// The decision for a call; takes no lock on a hit. Fails with Unsupported when the row has no
  /// rule (K-33), Runtime when no candidate is left or an in-place op would have to move its
  /// target, Value when shape inference refuses the call; where other placements of the inputs
  /// would do, they are the error's part "nearest".
  InUse<OutputSharding> propagate(const OpSchema& schema);
  /// The same, uncached, with all reasons for it.
  DecisionRecord explain(const OpSchema& schema) const;

  /// Counts decisions; plans have counts of their own.
  CacheStats stats() const;
  /// Empties decisions and plans. Not while ranks run.
  void clear();

 private:
  struct Impl;
  OutputSharding decided(const OpSchema& schema) const;

  const OpRegistry* registry_;
  bool advice_ = true;
  PlanCache plans_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardlab
