// plan.h - redistribution plans. A plan is rank-invariant: it holds no coordinate, no
// logical shape of one rank, no communicator, and is shared by all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mesh/flattened.h"
#include "mesh/local_shape.h"
#include "mesh/spec.h"
#include "plan/in_use.h"
#include "plan/planner_kind.h"
#include "plan/topology.h"

namespace shardlab {

/// The action of a step.
enum class StepKind : std::uint8_t {
  kAllReduce,       ///< P -> R
  kAllGather,       ///< S -> R
  kReduceScatter,   ///< P -> S
  kAllToAll,        ///< S(a) -> S(b)
  kPermute,         ///< ranks exchange pieces (planner `bytes`)
  kChunk,           ///< R -> S, local
  kToPartial,       ///< R -> P, local (K-16)
  kShardToPartial,  ///< S -> P(sum), local: own slice, zeros elsewhere (X-32)
  kNothing,         ///< equal placements (seed rules emit it)
  kRefused,         ///< the planner lists it, the executor refuses it (P -> another P, S -> P(max))
};

/// One collective or local change along one mesh dim, or several merged into one.
struct PlanStep {
  StepKind kind = StepKind::kNothing;
  InlineVector<std::size_t, 2> mesh_dims;  ///< several: merged, in the order of the single steps
  Placement from;
  Placement to;
  Placements after;  ///< state after this step
  ShardOrder order_after;
  double avg_scale = 1;  ///< merged sum and avg: divide by it afterwards
  /// kPermute: by row-major mesh index, the owner of the piece that a rank gets; empty when all
  /// keep their own.
  std::vector<std::int32_t> senders;
  bool communicates() const { return kind <= StepKind::kPermute; }
};

/// The cost that the graph planner adds up: the fixed weights of R-8, or predicted microseconds
///
enum class CostModel : std::uint8_t { kFixed, kTime };

/// Weights that the graph planner adds up for each collective instead of its time; local steps have
/// none. The defaults are the seed's, which ignore bytes and mesh sizes.
struct StepWeights {
  double all_to_all = 1, all_gather = 2, reduce_scatter = 2, all_reduce = 4;
  double of(StepKind kind) const;
  bool operator==(const StepWeights&) const = default;
};

/// Facts of the planner `bytes` about its plan. Bytes are those that the rank which receives most
/// receives, step by step, over the slowest links.
struct PlanProof {
  bool optimal = false;       ///< no plan of these steps is better
  std::int64_t bytes = 0;     ///< of this plan
  std::int64_t bound = 0;     ///< at least moved by any plan
  std::int64_t expanded = 0;  ///< states that were visited
  /// "optimal", or "best found, gap <= 12 B to the lower bound".
  std::string text() const;
};

/// The steps from one spec to another, in order. Specs outlive it, since they are interned.
struct Plan {
  const DTensorSpec* source = nullptr;
  const DTensorSpec* target = nullptr;
  PlannerKind planner = PlannerKind::kGreedy;
  std::vector<PlanStep> steps;
  std::optional<PlanProof> proof;  ///< planner `bytes` only
  /// "S(0)R->RR->RS(0)"; merged steps have a longer arrow.
  std::string text() const;
};

/// Options of planning. Part of the cache key.
struct PlanOptions {
  std::optional<PlannerKind> planner;  ///< empty: greedy iff both orders are default, else graph
                                       ///< (R-39)
  PlanRules rules = PlanRules::kV2_15;
  Topology topology;
  FlattenedDims flattened;      ///< empty: steps are not merged
  std::int64_t budget = 20000;  ///< states that the planner `bytes` may expand
  /// For the graph planner, which then uses them whatever its cost model. Finite and not negative,
  /// else planning fails with Value. Prices that choose among placements stay.
  std::optional<StepWeights> weights;
};

/// The reason why there is no plan; explain prints it.
struct NoPlan {
  std::string reason;
};
using PlanResult = std::variant<Plan, NoPlan>;

/// One planner each, called directly; the specs are on one layout. Infallible but for NoPlan.
PlanResult plan_greedy(const DTensorSpec& source, const DTensorSpec& target, PlanRules rules);
PlanResult plan_graph(const DTensorSpec& source, const DTensorSpec& target, CostModel model,
                      const PlanOptions& options);
/// Moves the fewest bytes over the slowest links, then over faster ones, in the fewest steps, with
/// the least memory at once: by all-to-all and by exchanging whole pieces between ranks where that
/// is cheaper than gathering and cutting. At least as good as greedy and graph where these can be
/// executed, which it keeps when nothing is better. Plain shards, up to 5 mesh dims larger than 1
/// and 1024 ranks; beyond that the better of the two.
PlanResult plan_bytes(const DTensorSpec& source, const DTensorSpec& target,
                      const PlanOptions& options);
/// Chooses the planner as. Fails with Unsupported for different layouts
///
PlanResult make_plan(const DTensorSpec& source, const DTensorSpec& target,
                     const PlanOptions& options);

/// The reason why the states of a plan have no text as orders: strided shards at its start
/// that mean none, or a step that undoes a cut which is not the last of its tensor dim. Empty when
/// they have.
std::optional<std::string> path_fault(const Plan& plan);

/// R-1's logical shape: a step as one coordinate sees it; derived, never cached. Greedy: the global
/// shape cut by the *source* shards of mesh dims before the step's. Graph: cut by every
/// sharding mesh dim of the state before the step, except its own. Of a merged step: that of
/// the outermost of its dims.
Dims logical_shape(const Plan& plan, std::size_t step, const Coordinate& coordinate);

/// Price in microseconds of moving between placements, as propagation needs it: 0 for equal ones or
/// a fully replicated source, infinity where the reference has it (S -> P, P(x) -> P(y), strided
/// shards that move). The greedy case allocates nothing.
double redistribute_cost(const DTensorSpec& source, const Placements& target,
                         const PlanOptions& options);
double redistribute_cost(const DTensorSpec& source, const DTensorSpec& target,
                         const PlanOptions& options);

/// Price of changing one mesh dim, whatever a planner would do: the weight of an edge of the graph
/// planner under CostModel::kTime.
double one_step_cost(const DTensorSpec& source, std::size_t mesh_dim, const Placement& to,
                     const PlanOptions& options);

/// Counts since the cache was made or cleared; entries are those that are present now.
struct CacheStats {
  std::uint64_t hits = 0, misses = 0, evictions = 0, entries = 0;
};

class MovePieces;

/// Remembers plans by (source, target, planner, flattened dims). Bounded: past `capacity` an old
/// plan is forgotten, and freed once as many more were, because a rank may be executing it. Shared
/// by all ranks; takes no lock on a hit.
class PlanCache {
 public:
  explicit PlanCache(PlanOptions options, std::size_t capacity = 1u << 16);
  ~PlanCache();
  /// The plan that make_plan chooses, its steps merged over `flattened`; for strided shards, where
  /// the reference's plan would mix up elements, a plan through whole tensor dims. Fails with
  /// Runtime naming both specs when there is no plan.
  InUse<Plan> find(const DTensorSpec* source, const DTensorSpec* target,
                   std::optional<PlannerKind> planner = std::nullopt,
                   const FlattenedDims& flattened = {});
  /// Those of a move between meshes, the last few of which are remembered.
  InUse<MovePieces> pieces(const DTensorSpec* source, const DTensorSpec* target);
  const PlanOptions& options() const { return options_; }
  CacheStats stats() const;
  /// All plans that are not freed, in the order they were made.
  void visit(const std::function<void(const Plan&)>& visit) const;
  /// Not while ranks run.
  void clear();

 private:
  struct Impl;
  PlanOptions options_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardlab
