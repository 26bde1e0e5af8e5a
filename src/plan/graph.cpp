// The graph planner: Dijkstra over placements and orders. Ties are decided by
// the order in which states were pushed.

#include <cmath>
#include <deque>
#include <queue>
#include <unordered_set>

#include "base/error.h"
#include "base/fix.h"
#include "base/hash.h"
#include "plan/cost.h"
#include "plan/successors.h"

namespace shardlab {
namespace {

struct StateHash {
  std::size_t operator()(const PlanState& state) const {
    std::uint64_t hash = 0;
    for (const Placement& placement : state.placements) hash = hash_mix(hash, hash_of(placement));
    for (const std::int32_t place : state.order) {
      hash = hash_mix(hash, static_cast<std::uint64_t>(place + 1));
    }
    return hash;
  }
};

/// One way into a state: the earlier entry it came from, and what changed.
struct Arrival {
  PlanState state;
  double cost = 0;
  const Arrival* parent = nullptr;  ///< null for the source
  Change change{};
};

class GraphSearch {
 public:
  GraphSearch(const DTensorSpec& spec, CostModel model, const PlanOptions& options,
              const EdgeRules& rules)
      : spec_(spec), model_(model), options_(options), rules_(rules) {}

  /// The goal's entry, or null when it can't be reached. Lives as long as the search.
  const Arrival* run(const PlanState& source, const PlanState& goal) {
    push({source});
    while (!queue_.empty()) {
      const Arrival& entry = *queue_.top().entry;
      queue_.pop();
      if (entry.state == goal) return &entry;
      if (settled_.insert(entry.state).second) expand(entry, goal);
    }
    return nullptr;
  }

 private:
  struct Waiting {
    const Arrival* entry;
    std::size_t number;
    /// priority_queue hands out the greatest, we want the cheapest, then the first pushed.
    bool operator<(const Waiting& other) const {
      const double mine = entry->cost, theirs = other.entry->cost;
      return mine != theirs ? mine > theirs : number > other.number;
    }
  };

  void push(Arrival entry) {
    entries_.push_back(std::move(entry));
    queue_.push({&entries_.back(), entries_.size()});
  }

  void expand(const Arrival& from, const PlanState& goal) {
    for (const Change& change : successors(from.state, rules_)) follow(from, change);
    if (rules_.rules == PlanRules::kSeed) return;
    for (const Change& change : successors_to_partial(from.state, goal, rules_)) {
      follow(from, change);
    }
  }

  void follow(const Arrival& from, const Change& change) {
    Arrival next{from.state, from.cost, &from, change};
    advance(next.state, change.mesh_dim, change.to);
    if (settled_.count(next.state) != 0) return;
    next.cost += weight(from.state, change);
    push(std::move(next));
  }

  double weight(const PlanState& state, const Change& change) const {
    const Placement& from = state.placements[change.mesh_dim];
    const StepKind kind = step_kind(from, change.to);
    if (options_.weights) return options_.weights->of(kind);
    if (model_ == CostModel::kFixed) return StepWeights{}.of(kind);
    if (kind == StepKind::kShardToPartial) return 0;
    std::int64_t shards = 1;
    for (std::size_t dim = 0; dim < state.placements.size(); ++dim) {
      if (state.placements[dim].is_shard()) shards *= spec_.layout()->size(dim);
    }
    return StepPricer(spec_, shards, options_).price(change.mesh_dim, from, change.to);
  }

  const DTensorSpec& spec_;
  CostModel model_;
  const PlanOptions& options_;
  const EdgeRules& rules_;
  std::deque<Arrival> entries_;
  std::priority_queue<Waiting> queue_;
  std::unordered_set<PlanState, StateHash> settled_;
};

// A path of edges that cost less than nothing has no cheapest one.
void check_weights(const StepWeights& weights) {
  for (const double weight :
       {weights.all_to_all, weights.all_gather, weights.reduce_scatter, weights.all_reduce}) {
    if (std::isfinite(weight) && weight >= 0) continue;
    fail(ErrorKind::kValue, Fix{"give weights of 0 and more"},
         "the weight of a collective is {}, and must be finite and not negative", weight);
  }
}

}  // namespace

PlanResult plan_graph(const DTensorSpec& source, const DTensorSpec& target, CostModel model,
                      const PlanOptions& options) {
  if (options.weights) check_weights(*options.weights);
  Plan plan;
  plan.source = &source;
  plan.target = &target;
  plan.planner = PlannerKind::kGraph;
  PlanState state = ordered_state(source);
  const PlanState goal = ordered_state(target);
  const PlanRules rules = model == CostModel::kFixed ? PlanRules::kSeed : PlanRules::kV2_15;
  const EdgeRules edges = edge_rules(source, target, rules);
  GraphSearch search(source, model, options, edges);
  const Arrival* arrival = search.run(state, goal);
  if (!arrival) {
    return NoPlan{fmt::format("no path from {} to {}", order_text(state.placements, state.order),
                              order_text(goal.placements, goal.order))};
  }
  std::vector<Change> path;
  for (; arrival->parent; arrival = arrival->parent) path.push_back(arrival->change);
  for (auto change = path.rbegin(); change != path.rend(); ++change) {
    append_step(plan, state, change->mesh_dim, change->to);
  }
  return plan;
}

}  // namespace shardlab
