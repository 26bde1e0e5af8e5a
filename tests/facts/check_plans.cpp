// Plans step by step with the logical shapes of the recorded rank, and costs to 1e-6 relative. The
// release that a file was recorded from chooses the planner's rules.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "plan/merge.h"
#include "plan/successors.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/layout_facts.h"
#include "tests/facts/redistribute_facts.h"

namespace shardlab {
namespace {

PlanOptions options_of(const Json& fact, PlanRules rules) {
  PlanOptions options;
  options.rules = rules;
  options.topology.devices_per_host = integer_or<std::int64_t>(fact, "per_host", 1);
  return options;
}

/// A plan as the rank of the line sees it; null for none.
Json json_of(const PlanResult& result, const Json& fact) {
  const Plan* plan = std::get_if<Plan>(&result);
  if (!plan) return nullptr;
  const auto coordinate =
      plan->source->layout()->coordinate_of(integer_of<std::int64_t>(fact.at("rank")));
  if (!coordinate) fail(ErrorKind::kValue, "rank {} outside of the mesh", fact.at("rank").dump());
  Json steps = Json::array();
  for (std::size_t index = 0; index < plan->steps.size(); ++index) {
    const PlanStep& step = plan->steps[index];
    const bool merged = step.mesh_dims.size() > 1;
    steps.push_back({{"dim", merged ? 0 : step.mesh_dims[0]},  // 0: of the flattened mesh
                     {"from", to_string(step.from)},
                     {"to", to_string(step.to)},
                     {"logical", json_of(logical_shape(*plan, index, *coordinate))}});
    if (!merged) continue;
    auto dims = step.mesh_dims;
    std::ranges::sort(dims);
    steps.back()["flattened"] = dims;
    steps.back()["avg_scale"] =
        step.avg_scale > 1 ? Json(static_cast<std::int64_t>(step.avg_scale)) : Json();
  }
  return steps;
}

void expect_plan(std::string_view field, std::string_view path_field, const PlanResult& result,
                 const Json& fact, CaseReport& report) {
  report.expect(field, fact.at(field), json_of(result, fact));
  const Plan* plan = std::get_if<Plan>(&result);
  if (!plan || !fact.contains(path_field)) return;
  const auto& path = fact.at(path_field).get_ref<const std::string&>();
  report.expect(path_field, our_spelling(path), plan->text());
}

/// A plan whose states the reference can't write has no text as orders here either.
void expect_path(const Plan& plan, const Json& fact, CaseReport& report) {
  const auto fault = path_fault(plan);
  const auto call = [&] {
    if (fault) fail(ErrorKind::kValue, "{}", *fault);
  };
  if (fact.contains("path_error")) {
    report.expect_error("path_error", fact.at("path_error"), call);
  } else if (fault) {
    report.differs("path_error", nullptr, *fault);
  }
}

/// Costs agree to 1e-6 relative; "inf" is infinity.
void expect_cost(std::string_view field, const Json& recorded, double got, CaseReport& report) {
  const bool infinite = recorded.is_string();
  const double expected = infinite ? HUGE_VAL : recorded.get<double>();
  const bool close =
      infinite ? got == expected : std::abs(got - expected) <= 1e-6 * std::abs(expected);
  if (!close) report.differs(field, recorded, got);
}

double fixed_cost(const Plan& plan) {
  double cost = 0;
  for (const PlanStep& step : plan.steps) cost += StepWeights{}.of(step.kind);
  return cost;
}

}  // namespace

SpecPair specs_of(Arena& arena, const Json& fact) {
  const MeshLayout* layout = mesh_of(arena, fact.at("mesh"));
  const DType dtype = dtype_of(fact.value("dtype", Json("f32")));
  const TensorMeta meta = contiguous_meta(dims_of(fact.at("shape")), dtype);
  const auto spec = [&](const char* placements, const char* order) {
    const Placements parsed = placements_of(fact.at(placements));
    if (!fact.contains(order) || fact.at(order).is_null()) return arena.spec(layout, parsed, meta);
    return arena.spec(layout, parsed, order_of(fact.at(order), layout->ndim()), meta);
  };
  return {spec("src", "src_order"), spec("dst", "dst_order")};
}

PlanRules rules_of(std::string_view stem) {
  return stem.find("-2.15") == std::string_view::npos ? PlanRules::kSeed : PlanRules::kV2_15;
}

void check_plan(Arena& arena, PlanRules rules, const Json& fact, CaseReport& report) {
  const SpecPair specs = specs_of(arena, fact);
  const PlanOptions options = options_of(fact, rules);
  if (fact.contains("greedy")) {
    const PlanResult greedy = plan_greedy(*specs.source, *specs.target, rules);
    expect_plan("greedy", "greedy_path", greedy, fact, report);
  }
  const CostModel model = rules == PlanRules::kSeed ? CostModel::kFixed : CostModel::kTime;
  const PlanResult graph = plan_graph(*specs.source, *specs.target, model, options);
  expect_plan("graph", "path", graph, fact, report);
  const Plan* path = std::get_if<Plan>(&graph);
  if (path && fact.contains("graph_cost")) {
    expect_cost("graph_cost", fact.at("graph_cost"), fixed_cost(*path), report);
  }
  const PlanResult chosen = make_plan(*specs.source, *specs.target, options);
  const Plan* plan = std::get_if<Plan>(&chosen);
  report.expect("selected", fact.at("selected"),
                std::string(plan ? to_string(plan->planner) : "graph"));
}

void check_flattened_plan(Arena& arena, PlanRules rules, const Json& fact, CaseReport& report) {
  const SpecPair specs = specs_of(arena, fact);
  const PlanResult greedy = plan_greedy(*specs.source, *specs.target, rules);
  expect_plan("greedy", "", greedy, fact, report);
  FlattenedDims flattened;
  for (const Json& mesh_dims : fact.at("flattened_meshes")) {
    std::uint32_t mask = 0;
    for (const Json& mesh_dim : mesh_dims) {
      const auto dim = integer_of<std::size_t>(mesh_dim);
      if (dim >= specs.source->layout()->ndim()) {
        fail(ErrorKind::kValue, Fix{"name dims of the mesh"}, "there is no mesh dim {}", dim);
      }
      mask |= 1u << dim;
    }
    flattened.push_back(mask);
  }
  expect_plan("optimized", "path", merge_steps(std::get<Plan>(greedy), flattened), fact, report);
}

void check_strided_plan(Arena& arena, PlanRules rules, const Json& fact, CaseReport& report) {
  const SpecPair specs = specs_of(arena, fact);
  const auto plan = [&] {
    return make_plan(*specs.source, *specs.target, options_of(fact, rules));
  };
  if (fact.contains("plan_error")) {
    report.expect_error("plan_error", fact.at("plan_error"), plan);
    return;
  }
  const PlanResult result = plan();
  expect_plan("plan", "path", result, fact, report);
  if (const Plan* path = std::get_if<Plan>(&result)) expect_path(*path, fact, report);
}

void check_cost(Arena& arena, PlanRules rules, const Json& fact, CaseReport& report) {
  const SpecPair specs = specs_of(arena, fact);
  const PlanOptions options = options_of(fact, rules);
  expect_cost("cost", fact.at("cost"), redistribute_cost(*specs.source, *specs.target, options),
              report);
  if (!fact.contains("one_step")) return;
  for (std::size_t mesh_dim = 0; mesh_dim < specs.source->placements().size(); ++mesh_dim) {
    const Placement& to = specs.target->placement(mesh_dim);
    if (specs.source->placement(mesh_dim) == to) continue;
    expect_cost("one_step", fact.at("one_step"),
                one_step_cost(*specs.source, mesh_dim, to, options), report);
  }
}

void check_cost_primitives(Arena& arena, PlanRules, const Json& fact, CaseReport& report) {
  const MeshLayout* layout = mesh_of(arena, fact.at("mesh"));
  Topology topology;
  topology.devices_per_host = integer_of<std::int64_t>(fact.at("per_host"));
  const auto mesh_dim = integer_of<std::size_t>(fact.at("dim"));
  if (mesh_dim >= layout->ndim())
    fail(ErrorKind::kValue, "mesh dim {} of {}", mesh_dim, layout->ndim());
  const Link link = topology.link(*layout, mesh_dim);
  const std::int64_t count = layout->size(mesh_dim);
  const double gib = fact.at("gb").get<double>();
  report.expect("devices", fact.at("devices"), count);
  expect_cost("bandwidth", fact.at("bandwidth"), link.gbps, report);
  expect_cost("latency", fact.at("latency"), link.us, report);
  expect_cost("all_gather", fact.at("all_gather"),
              collective_us(CollectiveKind::kAllGather, gib, count, link), report);
  expect_cost("all_reduce", fact.at("all_reduce"),
              collective_us(CollectiveKind::kAllReduce, gib, count, link), report);
  expect_cost("reduce_scatter", fact.at("reduce_scatter"),
              collective_us(CollectiveKind::kReduceScatter, gib, count, link), report);
}

}  // namespace shardlab
