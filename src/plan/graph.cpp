// The graph planner: Dijkstra over placements and orders. Ties are decided by
// the order in which states were pushed.
#include "plan/graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "plan/cost.h"

namespace shardlab {
namespace {

/// The task of a search.
struct Move {
  const DTensorSpec& source;
  const PlanOptions& options;
  CostModel model;
  EdgeRules rules;
  PlanState start, goal;

  double price(std::size_t mesh_dim, const Placement& from, const Placement& to,
               std::int64_t shards) const {
    const StepKind kind = step_kind(from, to);
    if (options.weights) return options.weights->of(kind);
    if (model == CostModel::kFixed) return StepWeights{}.of(kind);
    if (kind == StepKind::kShardToPartial) return 0;
    return StepPricer(source, shards, options).price(mesh_dim, from, to);
  }
};

/// A state in few bytes: of each mesh dim the number of its placement among those of the search,
/// and its place in the cutting order.
struct Letter {
  std::uint8_t placement;
  std::int8_t place;
  bool operator==(const Letter&) const = default;
};
using Code = InlineVector<Letter, 8>;

struct CodeHash {
  std::size_t operator()(const Code& code) const {
    std::uint64_t hash = 0;
    for (const auto [placement, place] : code) {
      hash = (hash ^ (std::uint64_t{placement} << 8) ^ static_cast<std::uint8_t>(place)) *
             0x9E3779B97F4A7C15;
    }
    return hash ^ (hash >> 32);
  }
};

/// The placements that states of a search have, numbered: replicated, all plain shards, others.
class Alphabet {
 public:
  explicit Alphabet(const Move& move) : tensor_dims_(move.rules.tensor_dims) {
    placements_.push_back(Placement::replicate());
    for (std::size_t dim = 0; dim < tensor_dims_; ++dim) {
      placements_.push_back(Placement::shard(static_cast<std::int64_t>(dim)));
    }
    for (const Placement& placement : move.start.placements) add(placement);
    for (const Placement& placement : move.goal.placements) add(placement);
    for (const Placement& placement : move.rules.strided) add(placement);
    for (const ReduceOp op : move.rules.to_partial) add(Placement::partial(op));
    check_invariant(placements_.size() < 256, "a search has less than 256 placements");
  }

  const std::vector<Placement>& placements() const { return placements_; }
  const Placement& of(Letter letter) const { return placements_[letter.placement]; }
  std::uint8_t number(const Placement& placement) const {
    if (placement.is_replicate()) return 0;
    if (placement.is_plain_shard()) return static_cast<std::uint8_t>(1 + placement.dim);
    const auto others = placements_.begin() + 1 + static_cast<std::ptrdiff_t>(tensor_dims_);
    const auto found = std::find(others, placements_.end(), placement);
    check_invariant(found != placements_.end(), "a state has placements of its search");
    return static_cast<std::uint8_t>(found - placements_.begin());
  }
  Code code(const PlanState& state) const {
    Code code;
    for (std::size_t dim = 0; dim < state.placements.size(); ++dim) {
      code.push_back({number(state.placements[dim]), static_cast<std::int8_t>(state.order[dim])});
    }
    return code;
  }
  PlanState state(const Code& code) const {
    PlanState state;
    for (const Letter letter : code) {
      state.placements.push_back(of(letter));
      state.order.push_back(letter.place);
    }
    return state;
  }
  /// Does the same as advance() of a state.
  void advance(Code& code, std::size_t mesh_dim, std::uint8_t to) const {
    const auto cut_by = [&](std::uint8_t number) -> std::int64_t {
      return placements_[number].is_shard() ? placements_[number].dim : -1;
    };
    recut(
        code.size(), mesh_dim, cut_by(to),
        [&](std::size_t dim) { return cut_by(code[dim].placement); },
        [&](std::size_t dim) -> std::int8_t& { return code[dim].place; });
    code[mesh_dim].placement = to;
  }

 private:
  void add(const Placement& placement) {
    if (std::ranges::find(placements_, placement) == placements_.end()) {
      placements_.push_back(placement);
    }
  }

  std::size_t tensor_dims_;
  std::vector<Placement> placements_;
};

/// Lower bound of the rest of the cost at a state: each mesh dim that differs from the goal takes
/// its cheapest collectives, of pieces as small as the mesh can make them. No step lowers this by
/// more than it costs.
class LeastLeft {
 public:
  LeastLeft(const Move& move, const Alphabet& alphabet) : letters_(alphabet.placements().size()) {
    const MeshLayout& mesh = *move.source.layout();
    left_.resize(mesh.ndim() * letters_);
    // A user's price may fall as bytes grow.
    if (move.options.topology.price && !move.options.weights) return;
    for (std::size_t dim = 0; dim < mesh.ndim(); ++dim) {
      const Dim own = of_dim(move, dim);
      for (std::size_t number = 0; number < letters_; ++number) {
        const Placement& now = alphabet.placements()[number];
        if (now == move.goal.placements[dim]) continue;
        double& left = left_[dim * letters_ + number];
        if (now.is_plain_shard()) left = own.shard;
        if (now.is_partial()) left = own.partial;
      }
    }
  }

  double at(const Code& code) const {
    double total = 0;
    for (std::size_t dim = 0; dim < code.size(); ++dim) total += of(dim, code[dim].placement);
    return total;
  }
  /// The bound at the state after this change.
  double behind(const Code& code, std::size_t mesh_dim, std::uint8_t to) const {
    double total = 0;
    for (std::size_t dim = 0; dim < code.size(); ++dim) {
      total += of(dim, dim == mesh_dim ? to : code[dim].placement);
    }
    return total;
  }

 private:
  struct Dim {
    double shard, partial;  // from a plain shard, from a pending reduction
  };

  double of(std::size_t dim, std::uint8_t number) const { return left_[dim * letters_ + number]; }

  static Dim of_dim(const Move& move, std::size_t dim) {
    const MeshLayout& mesh = *move.source.layout();
    const Placement whole = Placement::replicate(), here = Placement::shard(0),
                    there = Placement::shard(1), term = Placement::partial(ReduceOp::kSum);
    const auto of_shard = [&](const Placement& to) {
      return move.price(dim, here, to, mesh.size());
    };
    const auto of_partial = [&](const Placement& to) {
      return move.price(dim, term, to, mesh.size() / mesh.size(dim));
    };
    const Placement& to = move.goal.placements[dim];
    const bool to_sum = to.is_partial(ReduceOp::kSum);  // a shard becomes a term for nothing
    Dim own{of_shard(whole), std::min(of_partial(whole), of_partial(here) + of_shard(whole))};
    if (to.is_plain_shard()) own.shard = std::min(own.shard, of_shard(there));
    if (to_sum) own.shard = 0;
    if (to.is_plain_shard() || to_sum) own.partial = std::min(of_partial(whole), of_partial(here));
    return own;
  }

  std::size_t letters_;
  std::vector<double> left_;  // by mesh dim and number
};

/// The cheapest way into a state that is known: the state before, and the change.
struct Way {
  double cost = 0;
  const Way* parent = nullptr;  ///< null for the source
  std::size_t mesh_dim = 0;
  std::uint8_t to = 0;
  bool settled = false;        ///< there is no cheaper one
  const Code* code = nullptr;  ///< null: none is known
};

struct Waiting {
  Way* way;
  double rank;  ///< the least is taken first
  std::size_t number;
};

/// Dijkstra from the source, among the states from which the goal can still be reached at a price
/// of at most `limit`. States left out are part of no way that is cheap enough, so that the others
/// are met in the same order, which decides ties.
class GraphSearch {
 public:
  explicit GraphSearch(const Move& move)
      : move_(move),
        alphabet_(move_),
        left_(move_, alphabet_),
        start_(alphabet_.code(move_.start)),
        goal_(alphabet_.code(move_.goal)) {}

  /// The changes of the cheapest plan, or none when the goal can't be reached.
  std::optional<std::vector<Change>> run() {
    const Way* way = nullptr;
    if (left_.at(start_) > 0) {
      way = towards_goal(Sequence::kPromising);
      if (way == nullptr) return std::nullopt;
      limit_ = way->cost * (1 + kPriceRounding);
    }
    way = towards_goal(Sequence::kCheapest);
    if (way == nullptr) return std::nullopt;
    std::vector<Change> changes;
    for (; way->parent != nullptr; way = way->parent) {
      changes.push_back({way->mesh_dim, alphabet_.placements()[way->to]});
    }
    std::ranges::reverse(changes);
    return changes;
  }

 private:
  static constexpr double kNudge = 0.01;  ///< in microseconds: less than any collective
  /// Sorted by the cost of a way so far, the oldest of equal ones first; or by that cost plus the
  /// bound of the rest, the newest of equal ones first, which finds a cheapest way soon, but not
  /// the first.
  enum class Sequence : std::uint8_t { kCheapest, kPromising };

  const Way* towards_goal(Sequence sequence) {
    sequence_ = sequence;
    ways_.clear();
    queue_.clear();
    offer(start_, {}, left_.at(start_));
    while (!queue_.empty()) {
      Way& way = *taken().way;
      if (way.settled) continue;
      way.settled = true;
      if (*way.code == goal_) return &way;
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

  /// Takes the first of ways that cost the same.
  void offer(const Code& code, Way way, double least) {
    const auto entry = ways_.try_emplace(code).first;
    Way& known = entry->second;
    if (known.code != nullptr && (known.settled || way.cost >= known.cost)) return;
    way.code = &entry->first;
    known = way;
    double rank = way.cost;
    if (sequence_ == Sequence::kPromising) rank = 2 * least - way.cost + kNudge * differences(code);
    queue_.push_back({&known, rank, pushed_++});
    std::ranges::push_heap(queue_, later());
  }

  /// Mesh dims that differ from the goal.
  int differences(const Code& code) const {
    int count = 0;
    for (std::size_t dim = 0; dim < code.size(); ++dim) count += code[dim] == goal_[dim] ? 0 : 1;
    return count;
  }

  void expand(const Way& from) {
    const PlanState state = alphabet_.state(*from.code);
    std::int64_t shards = 1;
    for (std::size_t dim = 0; dim < state.placements.size(); ++dim) {
      if (state.placements[dim].is_shard()) shards *= move_.source.layout()->size(dim);
    }
    const auto follow_all = [&](const std::vector<Change>& changes) {
      for (const Change& change : changes) follow(from, state, change, shards);
    };
    follow_all(successors(state, move_.rules));
    if (move_.rules.rules == PlanRules::kSeed) return;
    follow_all(successors_to_partial(state, move_.goal, move_.rules));
  }

  void follow(const Way& from, const PlanState& state, const Change& change, std::int64_t shards) {
    const std::uint8_t to = alphabet_.number(change.to);
    const double left = left_.behind(*from.code, change.mesh_dim, to);
    if (from.cost + left > limit_) return;
    const Placement& now = state.placements[change.mesh_dim];
    const double cost = from.cost + move_.price(change.mesh_dim, now, change.to, shards);
    if (cost + left > limit_) return;
    Code next = *from.code;
    alphabet_.advance(next, change.mesh_dim, to);
    offer(next, {cost, &from, change.mesh_dim, to}, cost + left);
  }

  const Move move_;
  const Alphabet alphabet_;
  const LeastLeft left_;
  const Code start_, goal_;
  double limit_ = std::numeric_limits<double>::infinity();
  Sequence sequence_ = Sequence::kCheapest;
  std::unordered_map<Code, Way, CodeHash> ways_;
  std::vector<Waiting> queue_;
  std::size_t pushed_ = 0;
};

// With a negative weight there would be no cheapest path.
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
  GraphSearch search({source, options, model, edge_rules(source, target, rules), state, goal});
  const auto changes = search.run();
  if (!changes) {
    return NoPlan{fmt::format("no path from {} to {}", order_text(state.placements, state.order),
                              order_text(goal.placements, goal.order))};
  }
  Plan plan;
  plan.source = &source;
  plan.target = &target;
  plan.planner = PlannerKind::kGraph;
  for (const Change& change : *changes) append_step(plan, state, change.mesh_dim, change.to);
  return plan;
}

}  // namespace shardlab
