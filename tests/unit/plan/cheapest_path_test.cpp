// The graph planner against a search that tries everything: states are lists of mesh dims per
// tensor dim, edges are those of table 4.4 of the behaviours, and costs are relaxed until nothing
// changes. Weights are the seed's, all alike, and drawn ones.
#include <doctest/doctest.h>

#include <deque>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "tests/unit/plan/plan_support.h"

namespace shardlab {
namespace {

using test::SpecMaker;

/// The mesh dims that cut each tensor dim, first cut first, and those that hold terms of a sum.
struct Way {
  std::vector<std::vector<std::size_t>> cuts;
  std::set<std::size_t> sums;
  auto operator<=>(const Way&) const = default;
};

struct EdgeOut {
  Way to;
  StepKind kind;
};

Way without(Way way, std::size_t mesh_dim) {
  for (auto& cuts : way.cuts) std::erase(cuts, mesh_dim);
  way.sums.erase(mesh_dim);
  return way;
}
Way cut_by(Way way, std::size_t mesh_dim, std::size_t tensor_dim) {
  way = without(std::move(way), mesh_dim);
  way.cuts[tensor_dim].push_back(mesh_dim);
  return way;
}
Way summed_on(Way way, std::size_t mesh_dim) {
  way = without(std::move(way), mesh_dim);
  way.sums.insert(mesh_dim);
  return way;
}

/// Moves of a planner besides R-11 to R-15: the seed makes terms of any replica (R-16); since 2.15
/// only if an end has a sum, and a piece is a term if the goal has one (X-32).
struct TermRules {
  bool of_replicas;
  bool of_pieces;
};

std::vector<EdgeOut> edges_of(const Way& way, std::size_t mesh_dims, const TermRules& terms,
                              const Way& goal) {
  std::vector<EdgeOut> edges;
  std::set<std::size_t> cutting;
  for (std::size_t dim = 0; dim < way.cuts.size(); ++dim) {
    cutting.insert(way.cuts[dim].begin(), way.cuts[dim].end());
    if (way.cuts[dim].empty()) continue;
    const std::size_t last = way.cuts[dim].back();
    edges.push_back({without(way, last), StepKind::kAllGather});
    for (std::size_t to = 0; to < way.cuts.size(); ++to) {
      if (to != dim) edges.push_back({cut_by(way, last, to), StepKind::kAllToAll});
    }
    if (terms.of_pieces && goal.sums.contains(last))
      edges.push_back({summed_on(way, last), StepKind::kShardToPartial});
  }
  for (std::size_t mesh_dim = 0; mesh_dim < mesh_dims; ++mesh_dim) {
    const bool sums = way.sums.contains(mesh_dim);
    if (!sums && cutting.contains(mesh_dim)) continue;
    for (std::size_t to = 0; to < way.cuts.size(); ++to) {
      edges.push_back(
          {cut_by(way, mesh_dim, to), sums ? StepKind::kReduceScatter : StepKind::kChunk});
    }
    if (sums) edges.push_back({without(way, mesh_dim), StepKind::kAllReduce});
    if (!sums && terms.of_replicas)
      edges.push_back({summed_on(way, mesh_dim), StepKind::kToPartial});
  }
  return edges;
}

double weight(StepKind kind, const StepWeights& weights) {
  if (kind == StepKind::kAllReduce) return weights.all_reduce;
  if (kind == StepKind::kAllGather) return weights.all_gather;
  if (kind == StepKind::kReduceScatter) return weights.reduce_scatter;
  return kind == StepKind::kAllToAll ? weights.all_to_all : 0;
}

/// The cost of the cheapest way from `from` to `to`: all costs are lowered until none can be.
double least_cost(const Way& from, const Way& to, std::size_t mesh_dims, CostModel model,
                  const StepWeights& weights) {
  const bool seed = model == CostModel::kFixed;
  const TermRules terms{seed || !from.sums.empty() || !to.sums.empty(), !seed};
  std::map<Way, double> costs{{from, 0}};
  std::deque<Way> open{from};
  while (!open.empty()) {
    const Way way = open.front();
    open.pop_front();
    for (const EdgeOut& edge : edges_of(way, mesh_dims, terms, to)) {
      const double now = costs.at(way) + weight(edge.kind, weights);
      const auto [known, fresh] = costs.emplace(edge.to, now);
      if (!fresh && known->second <= now) continue;
      known->second = now;
      open.push_back(edge.to);
    }
  }
  const auto found = costs.find(to);
  return found == costs.end() ? std::numeric_limits<double>::infinity() : found->second;
}

Way way_of(const DTensorSpec& spec) {
  Way way{std::vector<std::vector<std::size_t>>(spec.ndim()), {}};
  for (std::size_t dim = 0; dim < spec.ndim(); ++dim) {
    for (const std::size_t mesh_dim :
         cutting_order(spec.placements(), spec.order(), static_cast<std::int64_t>(dim))) {
      way.cuts[dim].push_back(mesh_dim);
    }
  }
  for (std::size_t mesh_dim = 0; mesh_dim < spec.placements().size(); ++mesh_dim) {
    if (spec.placement(mesh_dim).is_partial()) way.sums.insert(mesh_dim);
  }
  return way;
}

/// Every state of a mesh, in default orders and, of two cuts of a dim, the other one.
std::vector<const DTensorSpec*> all_specs(SpecMaker& maker, std::size_t mesh_dims) {
  const char* letters[] = {"R", "S(0)", "S(1)", "P(sum)"};
  std::vector<std::string> texts{""};
  for (std::size_t mesh_dim = 0; mesh_dim < mesh_dims; ++mesh_dim) {
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      for (const char* letter : letters)
        longer.push_back(text + (text.empty() ? "" : " ") + letter);
    }
    texts = std::move(longer);
  }
  std::vector<const DTensorSpec*> specs;
  for (const std::string& text : texts) {
    specs.push_back(maker(text));
    const Way way = way_of(*specs.back());
    for (std::size_t dim = 0; dim < way.cuts.size(); ++dim) {
      if (way.cuts[dim].size() < 2) continue;
      const std::vector<std::size_t> turned(way.cuts[dim].rbegin(), way.cuts[dim].rend());
      specs.push_back(maker(text, {{static_cast<std::int64_t>(dim), turned}}));
    }
  }
  return specs;
}

double planned_cost(const Plan& plan, const StepWeights& weights) {
  double cost = 0;
  for (const PlanStep& step : plan.steps) cost += weight(step.kind, weights);
  return cost;
}

void check_pair(const DTensorSpec& from, const DTensorSpec& to, std::size_t mesh_dims,
                CostModel model, const StepWeights& weights) {
  PlanOptions options;
  options.weights = weights;
  const PlanResult result = plan_graph(from, to, model, options);
  CAPTURE(order_text(from.placements(), from.order()));
  CAPTURE(order_text(to.placements(), to.order()));
  CAPTURE(weights.all_to_all);
  CAPTURE(weights.all_gather);
  REQUIRE(std::holds_alternative<Plan>(result));
  const Plan& plan = std::get<Plan>(result);
  CHECK(planned_cost(plan, weights) ==
        doctest::Approx(least_cost(way_of(from), way_of(to), mesh_dims, model, weights)));
  // Step by step the plan follows edges, and ends at its target.
  Way at = way_of(from);
  for (const PlanStep& step : plan.steps) {
    const std::size_t mesh_dim = step.mesh_dims[0];
    at = step.to.is_shard()     ? cut_by(at, mesh_dim, static_cast<std::size_t>(step.to.dim))
         : step.to.is_partial() ? summed_on(at, mesh_dim)
                                : without(at, mesh_dim);
  }
  CHECK(at == way_of(to));
}

const StepWeights kWeights[] = {{}, {1, 1, 1, 1}, {3, 1, 1, 1}, {1, 5, 0.5, 0.25}, {2, 1, 7, 3}};

}  // namespace

TEST_CASE("R-22 R-25 on two mesh dims every graph plan is a cheapest way, whatever steps weigh") {
  SpecMaker maker({2, 2}, {8, 8});
  const std::vector<const DTensorSpec*> specs = all_specs(maker, 2);
  CHECK(specs.size() == 18);  // W-4
  for (const CostModel model : {CostModel::kFixed, CostModel::kTime}) {
    for (const StepWeights& weights : kWeights) {
      for (const DTensorSpec* from : specs) {
        for (const DTensorSpec* to : specs) check_pair(*from, *to, 2, model, weights);
      }
    }
  }
}

TEST_CASE("R-22 on three mesh dims drawn graph plans are cheapest ways") {
  SpecMaker maker({2, 2, 2}, {8, 8});
  const std::vector<const DTensorSpec*> specs = all_specs(maker, 3);
  std::mt19937 random(7);
  for (int number = 0; number < 40; ++number) {
    const DTensorSpec* from = specs[random() % specs.size()];
    const DTensorSpec* to = specs[random() % specs.size()];
    const StepWeights& weights = kWeights[static_cast<std::size_t>(number) % std::size(kWeights)];
    check_pair(*from, *to, 3, number % 2 == 0 ? CostModel::kTime : CostModel::kFixed, weights);
  }
}

TEST_CASE("R-8 weights that are negative or no numbers are refused") {
  SpecMaker maker({2, 2}, {8, 8});
  const double bad[] = {-1, std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::quiet_NaN()};
  for (const double value : bad) {
    for (int which = 0; which < 4; ++which) {
      PlanOptions options;
      options.weights = StepWeights{};
      double* const fields[] = {&options.weights->all_to_all, &options.weights->all_gather,
                                &options.weights->reduce_scatter, &options.weights->all_reduce};
      *fields[which] = value;
      try {
        plan_graph(*maker("S(0) R"), *maker("R S(1)"), CostModel::kFixed, options);
        FAIL("not refused");
      } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::kValue);
        CHECK(error.find("fix") != nullptr);
      }
    }
  }
}

}  // namespace shardlab
