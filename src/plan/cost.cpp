// The price of a move in the choice among candidates: the walk of the greedy planner priced
// step by step, or the steps of the plan where cutting orders are not the default. The size carries
// over from step to step: gathering multiplies it, and cutting divides it. Unreachable targets cost
// infinity and are not an error. As in the reference, strided shards that mean an order do not
// move, whether this would be possible or not, and those that a view left move for nothing.
#include "plan/cost.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

#include "plan/graph.h"
#include "plan/greedy.h"

namespace shardlab {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
double greedy_cost(const DTensorSpec& source, const Placements& target,
                   const PlanOptions& options) {
  StepPricer pricer(source, options);
  double total = 0;
  GreedyWalk walk(source, target, options.rules);
  walk.run([&](std::size_t mesh_dim, const Placement& from, const Placement& to) {
    total += pricer.price(mesh_dim, from, to);
  });
  return total;
}

/// Lower bound of the cost of moving one tensor to some placements (MoveCosts::at_least).
class LeastCost {
 public:
  LeastCost(const DTensorSpec& source, std::span<const Placement> target, bool default_orders,
            const PlanOptions& options)
      : source_(source),
        target_(target),
        default_orders_(default_orders),
        options_(options),
        layout_(*source.layout()) {}

  double us() const {
    double straight = 0, crowded = 0;  // with the cuts on the way, with all that there could be
    double detour = kInfinity;         // the cost of one more collective
    int paid = 0;
    bool exact = true;
    InlineVector<std::size_t, 4> gathered;
    for (std::size_t dim = 0; dim < target_.size(); ++dim) {
      exact = exact && std::has_single_bit(static_cast<std::uint64_t>(layout_.size(dim)));
      detour = std::min(detour, detour_by(dim));
      if (!pays(dim)) continue;
      ++paid;
      crowded += cheapest(dim, target_[dim], others(dim));
      if (from(dim).is_plain_shard() && !target_[dim].is_plain_shard()) {
        gathered.push_back(dim);
      } else {
        straight += cheapest(dim, target_[dim], cuts_before(dim));
      }
    }
    straight += one_after_another(std::move(gathered));
    if (!exact || paid > 2) straight *= 1 - kPriceRounding;
    return std::min(straight, (crowded + detour) * (1 - kPriceRounding));
  }

  double us_of(std::size_t dim, const Placement& to) const {
    return leaves(dim, to) ? cheapest(dim, to, others(dim)) * (1 - kPriceRounding) : 0;
  }

 private:
  double cheapest(std::size_t dim, const Placement& to, std::int64_t cuts) const {
    const double whole = price(dim, from(dim), Placement::replicate(), cuts);
    if (!to.is_plain_shard()) return whole;
    const std::int64_t other = from(dim).is_partial() ? 0 : from(dim).dim + 1;
    return std::min(whole, price(dim, from(dim), Placement::shard(other), cuts));
  }

  const Placement& from(std::size_t dim) const { return source_.placement(dim); }

  bool leaves(std::size_t dim, const Placement& to) const {
    return from(dim) != to && (from(dim).is_plain_shard() || from(dim).is_partial());
  }

  /// Whether a mesh dim takes a collective: it leaves its shard or its pending reduction, or a cut
  /// of the same tensor dim before it changes, which only the last one may.
  bool pays(std::size_t dim) const {
    if (leaves(dim, target_[dim])) return true;
    if (!from(dim).is_plain_shard() || !default_orders_) return false;
    const std::int64_t cut = from(dim).dim;
    for (std::size_t before = 0; before < dim; ++before) {
      if (from(before) == target_[before]) continue;
      if (from(before).is_shard(cut) || target_[before].is_shard(cut)) return true;
    }
    return false;
  }

  /// Factor by which the target's new cuts may have divided the pieces before that. Cuts of the
  /// tensor dim that is left do not count: its last cut must be the one that is undone.
  std::int64_t cuts_before(std::size_t paying) const {
    std::int64_t cuts = 1;
    for (std::size_t dim = 0; dim < target_.size(); ++dim) {
      const Placement& to = target_[dim];
      if (dim == paying || from(dim).is_plain_shard() || !to.is_plain_shard()) continue;
      if (!from(paying).is_shard(to.dim)) cuts *= layout_.size(dim);
    }
    return cuts;
  }

  /// Factor by which all other mesh dims could divide the pieces.
  std::int64_t others(std::size_t own) const {
    std::int64_t cuts = 1;
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      if (dim != own && !from(dim).is_plain_shard()) cuts *= layout_.size(dim);
    }
    return cuts;
  }

  /// Cost that a mesh dim adds by taking a collective more than it needs.
  double detour_by(std::size_t dim) const {
    const Placement whole = Placement::replicate(), here = Placement::shard(0),
                    there = Placement::shard(1);
    const std::int64_t before = others(dim);
    const std::int64_t cuts = from(dim).is_plain_shard() ? before : before * layout_.size(dim);
    const double back = price(dim, here, whole, cuts), over = price(dim, here, there, cuts);
    if (from(dim).is_plain_shard() || target_[dim].is_plain_shard()) return std::min(back, over);
    if (!from(dim).is_partial()) return back;
    const double at_once = price(dim, from(dim), whole, before);
    return std::max(0.0, price(dim, from(dim), here, before) + back - at_once);
  }

  /// Each gather makes the later ones larger. Long sequences are left out, which lowers the bound.
  double one_after_another(InlineVector<std::size_t, 4> dims) const {
    double least = kInfinity;
    do {
      double total = 0, larger = 1;
      for (const std::size_t dim : dims) {
        const double times = larger / static_cast<double>(cuts_before(dim));
        total += StepPricer(source_, options_, times).price(dim, from(dim), Placement::replicate());
        if (dims.size() <= 4) larger *= static_cast<double>(layout_.size(dim));
      }
      least = std::min(least, total);
    } while (dims.size() <= 4 && std::next_permutation(dims.begin(), dims.end()));
    return least;
  }

  double price(std::size_t dim, const Placement& now, const Placement& to,
               std::int64_t cuts) const {
    return StepPricer(source_, options_, 1 / static_cast<double>(cuts)).price(dim, now, to);
  }

  const DTensorSpec& source_;
  const std::span<const Placement> target_;  // empty for the question about one mesh dim
  const bool default_orders_;
  const PlanOptions& options_;
  const MeshLayout& layout_;
};

}  // namespace

StepPricer::StepPricer(const DTensorSpec& source, const PlanOptions& options, double times)
    : StepPricer(source, source.num_shards(), options) {
  gib_ *= times;
}

StepPricer::StepPricer(const DTensorSpec& source, std::int64_t shards, const PlanOptions& options)
    : layout_(*source.layout()),
      options_(options),
      gib_(static_cast<double>(item_bytes(source.dtype())) * static_cast<double>(source.numel()) /
           static_cast<double>(shards) / kBytesPerGib) {}

double StepPricer::price(std::size_t mesh_dim, const Placement& from, const Placement& to) {
  if (from == to) return 0;
  if (from.is_strided_shard() || to.is_strided_shard()) return 0;  // the reference prices none
  const std::int64_t n = layout_.size(mesh_dim);
  const auto count = static_cast<double>(n);
  if (to.is_partial()) {
    if (from.is_replicate()) return 0;
    return from.is_partial() && options_.rules == PlanRules::kSeed ? 0 : kInfinity;
  }
  if (from.is_replicate()) {  // the seed forgets that later steps move less
    if (options_.rules == PlanRules::kV2_15) gib_ /= count;
    return 0;
  }
  const Topology& topology = options_.topology;
  const Link link = topology.link(layout_, mesh_dim);
  if (from.is_partial()) {
    if (to.is_replicate()) return topology.us(CollectiveKind::kAllReduce, gib_, n, link);
    const double scatter = topology.us(CollectiveKind::kReduceScatter, gib_, n, link);
    gib_ /= count;
    return scatter;
  }
  if (to.is_shard()) return topology.us(CollectiveKind::kAllToAll, gib_, n, link);
  gib_ *= count;
  return topology.us(CollectiveKind::kAllGather, gib_, n, link);
}

std::string price_text(double us) {
  if (std::isinf(us)) return "impossible";
  return us == 0 ? "free" : fmt::format("{:.1f} us", us);
}

double MoveCosts::to(const Placements& target) const {
  if (source_.is_replicated()) return 0;
  if (source_.has_default_order() && source_.placements() == target) return 0;
  const bool strided = std::ranges::any_of(target, &Placement::is_strided_shard);
  if (source_.has_strided() || strided) return to(*source_.with(target));
  if (source_.has_default_order()) return greedy_cost(source_, target, options_);
  return planned(*source_.with(target));
}

double MoveCosts::to(const DTensorSpec& target) const {
  if (source_.layout() != target.layout()) return kInfinity;
  if (source_.is_replicated()) return 0;
  const bool same_order =
      source_.order() == target.order() && source_.strided() == target.strided();
  if (source_.placements() == target.placements() && same_order) return 0;
  if (source_.has_strided_order() || target.has_strided_order()) return kInfinity;
  if (source_.has_strided() || target.has_strided()) return planned(target);
  if (target.has_default_order()) return to(target.placements());
  return planned(target);
}

// decisions do not depend on the planner of the moves.
double MoveCosts::planned(const DTensorSpec& target) const {
  const auto model = graph_model(source_, target, std::nullopt, options_.rules);
  const PlanResult result = model ? plan_graph(source_, target, *model, options_)
                                  : plan_greedy(source_, target, options_.rules);
  const Plan* plan = std::get_if<Plan>(&result);
  if (!plan) return kInfinity;
  StepPricer pricer(source_, options_);
  double total = 0;
  for (const PlanStep& step : plan->steps) {
    total += pricer.price(step.mesh_dims[0], step.from, step.to);
  }
  return total;
}

double MoveCosts::at_least(const Placements& target, bool default_orders) const {
  return has_bounds() ? LeastCost(source_, target, default_orders, options_).us() : 0;
}

double MoveCosts::at_least(std::size_t mesh_dim, const Placement& to) const {
  return has_bounds() ? LeastCost(source_, {}, false, options_).us_of(mesh_dim, to) : 0;
}

// The seed carries more from step to step, and a user's price may fall as bytes grow.
bool MoveCosts::has_bounds() const {
  return options_.rules == PlanRules::kV2_15 && !options_.topology.price;
}

double redistribute_cost(const DTensorSpec& source, const Placements& target,
                         const PlanOptions& options) {
  return MoveCosts(source, options).to(target);
}

double redistribute_cost(const DTensorSpec& source, const DTensorSpec& target,
                         const PlanOptions& options) {
  return MoveCosts(source, options).to(target);
}

double one_step_cost(const DTensorSpec& source, std::size_t mesh_dim, const Placement& to,
                     const PlanOptions& options) {
  return StepPricer(source, options).price(mesh_dim, source.placement(mesh_dim), to);
}

}  // namespace shardlab
