// The graph planner: Dijkstra over placements and orders. Ties are decided by
// the order in which states were pushed.
#include "plan/graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "base/fix.h"
#include "base/hash.h"
#include "plan/cost.h"

namespace shardlab {
namespace {

/// What a search is about.
struct Move {
  const DTensorSpec& source;
  const PlanOptions& options;
  CostModel model;
  EdgeRules rules;
  PlanState goal;

  double price(std::size_t mesh_dim, const Placement& from, const Placement& to,
               std::int64_t shards) const {
    const StepKind kind = step_kind(from, to);
    if (options.weights) return options.weights->of(kind);
    if (model == CostModel::kFixed) return StepWeights{}.of(kind);
    if (kind == StepKind::kShardToPartial) return 0;
    return StepPricer(source, shards, options).price(mesh_dim, from, to);
  }
};

/// What is left to pay at a state, at least: each mesh dim that is not where the goal has it takes
/// its cheapest collectives, of pieces as small as the mesh can make them. No step lowers this by
/// more than it costs.
class LeastLeft {
 public:
  explicit LeastLeft(const Move& move) : goal_(move.goal) {
    const MeshLayout& mesh = *move.source.layout();
    // A price that the user brings may fall as bytes grow.
    if (move.options.topology.price && !move.options.weights) {
      dims_.resize(mesh.ndim());
      return;
    }
    const Placement whole = Placement::replicate(), here = Placement::shard(0),
                    there = Placement::shard(1);
    for (std::size_t dim = 0; dim < mesh.ndim(); ++dim) {
      const auto of_shard = [&](const Placement& to) {
        return move.price(dim, here, to, mesh.size());
      };
      const auto of_partial = [&](const Placement& to) {
        return move.price(dim, Placement::partial(ReduceOp::kSum), to,
                          mesh.size() / mesh.size(dim));
      };
      const Placement& to = goal_.placements[dim];
      Dim own;
      own.shard = of_shard(whole);
      own.partial = std::min(of_partial(whole), of_partial(here) + own.shard);
      if (to.is_plain_shard()) {
        own.shard = std::min(own.shard, of_shard(there));
        own.partial = std::min(of_partial(whole), of_partial(here));
      } else if (to.is_partial(ReduceOp::kSum)) {  // a shard becomes a term for nothing
        own.shard = 0;
        own.partial = std::min(of_partial(whole), of_partial(here));
      }
      dims_.push_back(own);
    }
  }

  double at(const PlanState& state) const { return behind(state, {0, state.placements[0]}); }
  /// Where the state is left by this change.
  double behind(const PlanState& state, const Change& change) const {
    double total = 0;
    for (std::size_t dim = 0; dim < dims_.size(); ++dim) {
      const Placement& now = dim == change.mesh_dim ? change.to : state.placements[dim];
      if (now == goal_.placements[dim]) continue;
      if (now.is_plain_shard()) total += dims_[dim].shard;
      if (now.is_partial()) total += dims_[dim].partial;
    }
    return total;
  }

 private:
  struct Dim {
    double shard = 0, partial = 0;  ///< from a plain shard, from a pending reduction
  };
  const PlanState& goal_;
  InlineVector<Dim, 4> dims_;
};

/// The cheapest way into a state that is known: from which one, and by what.
struct Way {
  double cost = 0;
  const Way* parent = nullptr;  ///< null for the source
  Change change{};
  const PlanState* state = nullptr;  ///< null: none is known
  bool settled = false;              ///< there is no cheaper one
};

struct Waiting {
  Way* way;
  double rank;  ///< the least is taken first
  std::size_t number;
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

/// Dijkstra from the source, among the states from which the goal can still be reached at a price
/// of at most `limit`. Who is left out has no part in any way that is cheap enough, so that the
/// others are met in the same order, which decides ties.
class GraphSearch {
 public:
  explicit GraphSearch(const Move& move) : move_(move), left_(move_) {}

  /// The way to the goal, or null when it can't be reached. Lives as long as the search.
  const Way* run() {
    const double first = left_.at(ordered_state(move_.source));
    if (first == 0) return towards_goal(Sequence::kCheapest);
    const Way* way = towards_goal(Sequence::kPromising);
    if (way == nullptr) return nullptr;
    limit_ = way->cost * (1 + kRounding);
    return towards_goal(Sequence::kCheapest);
  }

 private:
  static constexpr double kRounding = 1e-9;  ///< sums in another order differ by less
  static constexpr double kNudge = 0.01;     ///< in microseconds: less than any collective
  /// By what a way cost so far and, of equal ones, who came first; or by that and what is left at
  /// least and, of equal ones, who came last, which finds a cheapest way soon, but not the first.
  enum class Sequence : std::uint8_t { kCheapest, kPromising };

  const Way* towards_goal(Sequence sequence) {
    sequence_ = sequence;
    ways_.clear();
    queue_.clear();
    PlanState first = ordered_state(move_.source);
    const double least = left_.at(first);
    offer(std::move(first), {}, least);
    while (!queue_.empty()) {
      Way& way = *taken().way;
      if (way.settled) continue;
      way.settled = true;
      if (*way.state == move_.goal) return &way;
      expand(way);
    }
    return nullptr;
  }

  /// Heaps have the greatest on top.
  auto later() const {
    return [this](const Waiting& a, const Waiting& b) {
      if (a.rank != b.rank) return a.rank > b.rank;
      return sequence_ == Sequence::kCheapest ? a.number > b.number : a.number < b.number;
    };
  }
  Waiting taken() {
    std::ranges::pop_heap(queue_, later());
    const Waiting top = queue_.back();
    queue_.pop_back();
    return top;
  }

  /// Of ways that cost the same the first is taken.
  void offer(PlanState state, Way way, double least) {
    const auto entry = ways_.try_emplace(std::move(state)).first;
    Way& known = entry->second;
    if (known.state != nullptr && (known.settled || way.cost >= known.cost)) return;
    way.state = &entry->first;
    known = way;
    const double left = least - way.cost + kNudge * differences(*way.state);
    const double rank = sequence_ == Sequence::kCheapest ? way.cost : least + left;
    queue_.push_back({&known, rank, pushed_++});
    std::ranges::push_heap(queue_, later());
  }

  /// Mesh dims that are not as in the goal.
  int differences(const PlanState& state) const {
    int count = 0;
    for (std::size_t dim = 0; dim < state.placements.size(); ++dim) {
      const bool there = state.placements[dim] == move_.goal.placements[dim] &&
                         state.order[dim] == move_.goal.order[dim];
      count += there ? 0 : 1;
    }
    return count;
  }

  void expand(const Way& from) {
    for (const Change& change : successors(*from.state, move_.rules)) follow(from, change);
    if (move_.rules.rules == PlanRules::kSeed) return;
    for (const Change& change : successors_to_partial(*from.state, move_.goal, move_.rules)) {
      follow(from, change);
    }
  }

  void follow(const Way& from, const Change& change) {
    const double cost = from.cost + weight(*from.state, change);
    const double least = cost + left_.behind(*from.state, change);
    if (least > limit_) return;
    PlanState next = *from.state;
    advance(next, change.mesh_dim, change.to);
    offer(std::move(next), {cost, &from, change}, least);
  }

  double weight(const PlanState& state, const Change& change) const {
    std::int64_t shards = 1;
    for (std::size_t dim = 0; dim < state.placements.size(); ++dim) {
      if (state.placements[dim].is_shard()) shards *= move_.source.layout()->size(dim);
    }
    return move_.price(change.mesh_dim, state.placements[change.mesh_dim], change.to, shards);
  }

  const Move move_;
  const LeastLeft left_;
  double limit_ = std::numeric_limits<double>::infinity();
  Sequence sequence_ = Sequence::kCheapest;
  std::unordered_map<PlanState, Way, StateHash> ways_;
  std::vector<Waiting> queue_;
  std::size_t pushed_ = 0;
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
  const PlanRules rules = model == CostModel::kFixed ? PlanRules::kSeed : PlanRules::kV2_15;
  const PlanState goal = ordered_state(target);
  PlanState state = ordered_state(source);
  GraphSearch search({source, options, model, edge_rules(source, target, rules), goal});
  const Way* way = search.run();
  if (way == nullptr) {
    return NoPlan{fmt::format("no path from {} to {}", order_text(state.placements, state.order),
                              order_text(goal.placements, goal.order))};
  }
  Plan plan;
  plan.source = &source;
  plan.target = &target;
  plan.planner = PlannerKind::kGraph;
  std::vector<Change> path;
  for (; way->parent != nullptr; way = way->parent) path.push_back(way->change);
  for (auto change = path.rbegin(); change != path.rend(); ++change) {
    append_step(plan, state, change->mesh_dim, change->to);
  }
  return plan;
}

}  // namespace shardlab
