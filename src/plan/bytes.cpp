// The planner `bytes`: A* over placements, orders and exchanges of whole pieces. The estimate of
// the remaining cost is BytesSpace::bound, which never overestimates.
#include <algorithm>
#include <bit>
#include <queue>
#include <unordered_map>

#include "base/hash.h"
#include "plan/bytes_space.h"
#include "plan/whole.h"

namespace shardlab {
namespace {

using State = BytesSpace::State;

std::uint64_t key_of(const State& state) { return std::bit_cast<std::uint64_t>(state.codes); }

struct KeyHash {
  std::size_t operator()(std::uint64_t key) const { return hash_mix(0, key); }
};

/// A plan that can be executed, and its cost.
struct Candidate {
  Plan plan;
  BytesCost cost;
};

class BytesSearch {
 public:
  BytesSearch(BytesSpace& space, const State& start, const State& goal, std::int64_t budget)
      : space_(space), goal_(goal), budget_(budget) {
    nodes_.push_back({start, {}, 0, false});
    index_.emplace(key_of(start), 0);
    queue_.push({estimate(start, {}), 0});
  }

  /// Searches for a plan better than `limit`. True when the search is complete.
  bool run(const std::optional<BytesCost>& limit) {
    limit_ = limit;
    while (!queue_.empty()) {
      const Waiting top = queue_.top();
      if (limit_ && top.estimate >= *limit_) return true;
      const Node& node = nodes_[top.node];
      if (node.state == goal_) return true;
      if (expanded_ == budget_) {
        open_bound_ = top.estimate.received[0];
        return false;
      }
      queue_.pop();
      if (top.estimate == estimate(node.state, node.cost)) expand(top.node);
    }
    return true;
  }

  /// The way to the goal, start first; empty when nothing better than the limit was found.
  std::vector<std::uint32_t> path() const {
    const auto found = index_.find(key_of(goal_));
    if (found == index_.end()) return {};
    std::vector<std::uint32_t> path{found->second};
    while (path.back() != 0) path.push_back(nodes_[path.back()].parent);
    std::ranges::reverse(path);
    return path;
  }
  const State& state(std::uint32_t node) const { return nodes_[node].state; }
  bool by_exchange(std::uint32_t node) const { return nodes_[node].by_exchange; }
  std::int64_t expanded() const { return expanded_; }
  /// Lower bound of the cost of every plan that was not tried.
  std::int64_t open_bound() const { return open_bound_; }

 private:
  struct Node {
    State state;
    BytesCost cost;
    std::uint32_t parent;
    bool by_exchange;
  };
  struct Waiting {
    BytesCost estimate;
    std::uint32_t node;
    /// priority_queue hands out the greatest, we want the cheapest, then the first found.
    bool operator<(const Waiting& other) const {
      return estimate != other.estimate ? estimate > other.estimate : node > other.node;
    }
  };

  BytesCost estimate(const State& state, const BytesCost& cost) {
    BytesCost result = cost;
    if (state == goal_) return result;
    result.received[0] += space_.bound(state);
    ++result.steps;
    return result;
  }

  void expand(std::uint32_t at) {
    ++expanded_;
    const State from = nodes_[at].state;
    space_.each_step(from,
                     [&](const State& to, const BytesCost& cost) { follow(at, to, cost, false); });
    if (nodes_[at].by_exchange) return;  // two exchanges in a row are one
    space_.piece_keys(from, keys_);
    BytesCost least;
    least.steps = 1;
    space_.each_exchange(from, [&](const State& to) {
      if (worth(at, to, least)) follow(at, to, space_.exchange_cost(from, keys_, to), true);
    });
  }

  /// False when a way to `to` at this cost gains nothing.
  bool worth(std::uint32_t at, const State& to, const BytesCost& step) {
    const BytesCost cost = nodes_[at].cost + step;
    const auto known = index_.find(key_of(to));
    if (known != index_.end() && nodes_[known->second].cost <= cost) return false;
    return !limit_ || estimate(to, cost) < *limit_;
  }

  void follow(std::uint32_t at, const State& to, const BytesCost& step, bool by_exchange) {
    if (!worth(at, to, step)) return;
    const BytesCost cost = nodes_[at].cost + step;
    const auto [place, fresh] =
        index_.emplace(key_of(to), static_cast<std::uint32_t>(nodes_.size()));
    if (fresh) nodes_.emplace_back();
    nodes_[place->second] = {to, cost, at, by_exchange};
    queue_.push({estimate(to, cost), place->second});
  }

  BytesSpace& space_;
  State goal_;
  std::int64_t budget_, expanded_ = 0, open_bound_ = 0;
  std::optional<BytesCost> limit_;
  std::vector<Node> nodes_;
  std::vector<std::uint64_t> keys_;  ///< of the state that is being expanded
  std::unordered_map<std::uint64_t, std::uint32_t, KeyHash> index_;
  std::priority_queue<Waiting> queue_;
};

/// R-57, K-16: values that the executor refuses to split into terms.
bool refused(const PlanStep& step, DType dtype) {
  if (step.kind == StepKind::kRefused) return true;
  if (step.kind != StepKind::kToPartial) return false;
  if (step.to.op == ReduceOp::kSum || step.to.op == ReduceOp::kAvg) return is_integral(dtype);
  return step.to.op != ReduceOp::kMax && step.to.op != ReduceOp::kMin;
}

/// Empty when the plan can't be executed, which makes it no bound.
std::optional<BytesCost> cost_of(BytesSpace& space, const Plan& plan) {
  BytesCost total;
  State state = space.state_of(first_state(plan));
  for (const PlanStep& step : plan.steps) {
    const State next = space.state_of({step.after, step.order_after});
    if (step.kind == StepKind::kPermute) {
      std::vector<std::uint64_t> keys;
      space.piece_keys(state, keys);
      total = total + space.exchange_cost(state, keys, next);
    } else if (!(next == state)) {  // else of size 1: nothing moves
      const auto found = std::ranges::find(space.mesh_dims(), step.mesh_dims[0]);
      const auto dim = static_cast<std::size_t>(found - space.mesh_dims().begin());
      if (refused(step, plan.source->dtype())) return std::nullopt;
      total = total + space.step_cost(state, dim, next);
    }
    state = next;
  }
  return total;
}

/// Mesh dims of size 1 get the placements of the target, which moves nothing.
void relabel(Plan& plan, PlanState& state, const MeshLayout& layout) {
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    const Placement& to = plan.target->placement(dim);
    if (layout.size(dim) == 1 && state.placements[dim] != to) append_step(plan, state, dim, to);
  }
}

PlanStep step_between(BytesSpace& space, const State& from, const State& to, bool by_exchange) {
  const PlanState before = space.plan_state(from), after = space.plan_state(to);
  PlanStep step;
  for (const std::size_t dim : space.mesh_dims()) {
    const bool moved = before.placements[dim] != after.placements[dim] ||
                       (by_exchange && before.order[dim] != after.order[dim]);
    if (moved) step.mesh_dims.push_back(dim);
  }
  step.from = before.placements[step.mesh_dims[0]];
  step.to = after.placements[step.mesh_dims[0]];
  step.kind = by_exchange ? StepKind::kPermute : step_kind(step.from, step.to);
  if (by_exchange) step.senders = space.senders(from, to);
  step.after = after.placements;
  step.order_after = after.order;
  return step;
}

Plan planned(BytesSpace& space, const BytesSearch& search, const DTensorSpec& source,
             const DTensorSpec& target) {
  Plan plan;
  plan.source = &source;
  plan.target = &target;
  plan.planner = PlannerKind::kBytes;
  PlanState state = ordered_state(source);
  relabel(plan, state, *source.layout());
  const std::vector<std::uint32_t> path = search.path();
  for (std::size_t i = 1; i < path.size(); ++i) {
    plan.steps.push_back(step_between(space, search.state(path[i - 1]), search.state(path[i]),
                                      search.by_exchange(path[i])));
  }
  return plan;
}

void keep_better(std::optional<Candidate>& best, BytesSpace& space, PlanResult result) {
  Plan* plan = std::get_if<Plan>(&result);
  if (!plan) return;
  const auto cost = cost_of(space, *plan);
  if (cost && (!best || *cost < best->cost)) best = Candidate{std::move(*plan), *cost};
}

/// Greedy's plan where orders are default. Cheap, and nearly always a good bound.
std::optional<Candidate> greedy_candidate(BytesSpace& space, const DTensorSpec& source,
                                          const DTensorSpec& target, const PlanOptions& options) {
  std::optional<Candidate> best;
  const bool applies = source.has_default_order() && target.has_default_order() &&
                       !source.has_strided() && !target.has_strided();
  if (applies) keep_better(best, space, plan_greedy(source, target, options.rules));
  return best;
}

/// The plan of the other planners, for a space too large to search, or strided shards that mean no
/// order.
PlanResult other_planners(const DTensorSpec& source, const DTensorSpec& target,
                          PlanOptions options) {
  options.planner.reset();
  PlanResult result = make_plan(source, target, options);
  if (Plan* plan = std::get_if<Plan>(&result)) {
    if (!keeps_data(*plan)) *plan = plan_through_whole(source, target);
  }
  return result;
}

}  // namespace

PlanResult plan_bytes(const DTensorSpec& source, const DTensorSpec& target,
                      const PlanOptions& options) {
  if (!decodable(source) || !decodable(target) || !BytesSpace::fits(source)) {
    return other_planners(source, target, options);
  }
  BytesSpace space(source, target, options);
  const State start = space.state_of(ordered_state(source));
  const State goal = space.state_of(ordered_state(target));
  std::optional<Candidate> best = greedy_candidate(space, source, target, options);
  BytesSearch search(space, start, goal, options.budget);
  const auto limit = best ? std::optional(best->cost) : std::nullopt;
  const bool complete = search.run(limit);
  if (!complete) keep_better(best, space, plan_graph(source, target, CostModel::kTime, options));
  const std::vector<std::uint32_t> path = search.path();
  if (!path.empty()) keep_better(best, space, planned(space, search, source, target));
  if (!best) return NoPlan{"no way to these terms: reduce them first"};
  const auto item = static_cast<std::int64_t>(item_bytes(source.dtype()));
  best->plan.planner = PlannerKind::kBytes;
  const std::int64_t bound =
      complete ? space.bound(start) : std::max(space.bound(start), search.open_bound());
  best->plan.proof =
      PlanProof{complete, best->cost.received[0] * item, bound * item, search.expanded()};
  return std::move(best->plan);
}

}  // namespace shardlab
