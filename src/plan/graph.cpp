// The graph planner: Dijkstra over placements and orders. Ties are decided by
// the order in which states were pushed.
#include "plan/graph.h"

#include <cmath>
#include <queue>
#include <unordered_map>

#include "base/error.h"
#include "base/fix.h"
#include "base/hash.h"
#include "plan/cost.h"

namespace shardlab {
class GraphSearch {
 public:
  /// What a search is about but for its goal: those with the same edges go the same way.
  struct Edges {
    CostModel model;
    EdgeRules rules;
    /// The goal's partials, and replicas elsewhere: which changes lead towards them.
    PlanState wanted;
    bool operator==(const Edges&) const = default;

    static Edges to(const DTensorSpec& target, const DTensorSpec& source, CostModel model) {
      const PlanRules rules = model == CostModel::kFixed ? PlanRules::kSeed : PlanRules::kV2_15;
      Edges edges{model, edge_rules(source, target, rules), {}};
      for (const Placement& placement : target.placements()) {
        edges.wanted.placements.push_back(placement.is_partial() ? placement
                                                                 : Placement::replicate());
      }
      return edges;
    }
  };

  /// The cheapest way into a state that is known: from which one, and by what.
  struct Way {
    double cost = 0;
    const Way* parent = nullptr;  ///< null for the source
    Change change{};
    const PlanState* state = nullptr;  ///< null: none is known
    bool settled = false;              ///< there is no cheaper one
  };

  GraphSearch(const DTensorSpec& source, const PlanOptions& options, Edges edges)
      : source_(source), options_(options), edges_(std::move(edges)) {
    offer(*ways_.try_emplace(ordered_state(source)).first, {});
  }

  const Edges& edges() const { return edges_; }

  /// The way to the goal, or null when it can't be reached. Lives as long as the search.
  const Way* run(const PlanState& goal) {
    if (const auto known = ways_.find(goal); known != ways_.end() && known->second.settled) {
      return &known->second;
    }
    while (!queue_.empty()) {
      Way& way = *queue_.top().way;
      queue_.pop();
      if (way.settled) continue;
      way.settled = true;
      expand(way);
      if (*way.state == goal) return &way;
    }
    return nullptr;
  }

 private:
  struct Waiting {
    Way* way;
    double cost;
    std::size_t number;
    /// priority_queue hands out the greatest, we want the cheapest, then the first pushed.
    bool operator<(const Waiting& other) const {
      return cost != other.cost ? cost > other.cost : number > other.number;
    }
  };

  struct StateHash {
    // What else a placement says is the same in most states of a search.
    std::size_t operator()(const PlanState& state) const {
      std::uint64_t hash = 0;
      for (std::size_t i = 0; i < state.placements.size(); ++i) {
        const Placement& placement = state.placements[i];
        const auto kind = static_cast<std::uint64_t>(placement.kind);
        const auto dim = static_cast<std::uint64_t>(placement.dim);
        const auto factor = static_cast<std::uint64_t>(placement.split_factor);
        const auto place = static_cast<std::uint64_t>(state.order[i] + 1);
        hash = hash_mix(hash, (factor << 32) ^ (dim << 16) ^ (place << 8) ^ kind);
      }
      return hash;
    }
  };

  using Entry = std::pair<const PlanState, Way>;

  /// Of ways that cost the same the first is taken.
  void offer(Entry& entry, const Way& way) {
    if (entry.second.state != nullptr && way.cost >= entry.second.cost) return;
    entry.second = way;
    entry.second.state = &entry.first;
    queue_.push({&entry.second, way.cost, pushed_++});
  }

  void expand(const Way& from) {
    for (const Change& change : successors(*from.state, edges_.rules)) follow(from, change);
    if (edges_.rules.rules == PlanRules::kSeed) return;
    for (const Change& change : successors_to_partial(*from.state, edges_.wanted, edges_.rules)) {
      follow(from, change);
    }
  }

  void follow(const Way& from, const Change& change) {
    PlanState next = *from.state;
    advance(next, change.mesh_dim, change.to);
    Entry& entry = *ways_.try_emplace(std::move(next)).first;
    if (entry.second.settled) return;
    offer(entry, {from.cost + weight(*from.state, change), &from, change});
  }

  double weight(const PlanState& state, const Change& change) const {
    const Placement& from = state.placements[change.mesh_dim];
    const StepKind kind = step_kind(from, change.to);
    if (options_.weights) return options_.weights->of(kind);
    if (edges_.model == CostModel::kFixed) return StepWeights{}.of(kind);
    if (kind == StepKind::kShardToPartial) return 0;
    std::int64_t shards = 1;
    for (std::size_t dim = 0; dim < state.placements.size(); ++dim) {
      if (state.placements[dim].is_shard()) shards *= source_.layout()->size(dim);
    }
    return StepPricer(source_, shards, options_).price(change.mesh_dim, from, change.to);
  }

  const DTensorSpec& source_;
  const PlanOptions& options_;
  const Edges edges_;
  std::unordered_map<PlanState, Way, StateHash> ways_;
  std::priority_queue<Waiting> queue_;
  std::size_t pushed_ = 0;
};

namespace {

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

GraphPlans::GraphPlans(const DTensorSpec& source, const PlanOptions& options)
    : source_(source), options_(options) {
  if (options.weights) check_weights(*options.weights);
}
GraphPlans::~GraphPlans() = default;
GraphPlans::GraphPlans(GraphPlans&&) noexcept = default;

PlanResult GraphPlans::to(const DTensorSpec& target, CostModel model) {
  const auto edges = GraphSearch::Edges::to(target, source_, model);
  auto search = std::ranges::find_if(
      searches_, [&](const auto& started) { return started->edges() == edges; });
  if (search == searches_.end()) {
    search = searches_.insert(search, std::make_unique<GraphSearch>(source_, options_, edges));
  }
  const PlanState goal = ordered_state(target);
  PlanState state = ordered_state(source_);
  const GraphSearch::Way* way = (*search)->run(goal);
  if (way == nullptr) {
    return NoPlan{fmt::format("no path from {} to {}", order_text(state.placements, state.order),
                              order_text(goal.placements, goal.order))};
  }
  Plan plan;
  plan.source = &source_;
  plan.target = &target;
  plan.planner = PlannerKind::kGraph;
  std::vector<Change> path;
  for (; way->parent != nullptr; way = way->parent) path.push_back(way->change);
  for (auto change = path.rbegin(); change != path.rend(); ++change) {
    append_step(plan, state, change->mesh_dim, change->to);
  }
  return plan;
}

PlanResult plan_graph(const DTensorSpec& source, const DTensorSpec& target, CostModel model,
                      const PlanOptions& options) {
  return GraphPlans(source, options).to(target, model);
}

}  // namespace shardlab
