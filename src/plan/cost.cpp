// What selection among candidates pays for a move: the walk of the greedy planner priced
// step by step, or the steps of the plan where cutting orders are not the default. The size carries
// over from step to step: gathering multiplies it, and cutting divides it. Unreachable targets cost
// infinity and are not an error. As in the reference, strided shards that mean an order do not
// move, whether this would be possible or not, and those that a view left move for nothing.
#include "plan/cost.h"

#include <limits>

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

bool has_strided(const Placements& placements) {
  for (const Placement& placement : placements) {
    if (placement.is_strided_shard()) return true;
  }
  return false;
}

}  // namespace

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

double MoveCosts::to(const Placements& target) {
  if (source_.is_replicated()) return 0;
  if (source_.has_default_order() && source_.placements() == target) return 0;
  if (source_.has_strided() || has_strided(target)) return to(*source_.with(target));
  if (source_.has_default_order()) return greedy_cost(source_, target, options_);
  return planned(*source_.with(target));
}

double MoveCosts::to(const DTensorSpec& target) {
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

// decisions do not depend on who plans the moves.
double MoveCosts::planned(const DTensorSpec& target) {
  const auto model = graph_model(source_, target, std::nullopt, options_.rules);
  if (model && !plans_) plans_.emplace(source_, options_);
  const PlanResult result =
      model ? plans_->to(target, *model) : plan_greedy(source_, target, options_.rules);
  const Plan* plan = std::get_if<Plan>(&result);
  if (!plan) return kInfinity;
  StepPricer pricer(source_, options_);
  double total = 0;
  for (const PlanStep& step : plan->steps) {
    total += pricer.price(step.mesh_dims[0], step.from, step.to);
  }
  return total;
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
