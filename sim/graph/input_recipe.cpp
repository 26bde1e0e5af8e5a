// An input of a graph is one of a scenario again before it is drawn, so that both are drawn alike.
#include "sim/graph/input_recipe.h"

#include "api/inputs.h"
#include "base/error.h"
#include "base/policies.h"
#include "plan/planner_name.h"
#include "sim/language/syntax/parser.h"
#include "trace/graph_text.h"

namespace shardlab {

namespace {

/// True when it has all elements of a value with this many.
bool is_whole(const InputRecipe& recipe, std::int64_t elements) {
  if (lists_values(recipe)) return static_cast<std::int64_t>(recipe.values.size()) == elements;
  const InputInit* init = find_input_init(recipe.init);
  if (init != nullptr) return recipe.arguments.size() >= init->fewest;
  fail(Fix{kCaptureProgram}, "'{}' is not a way to make an input", recipe.init);
}

// Messages about a graph point to the words of the graph.
Where where_of(const std::string& file, const std::string& text) {
  return {std::make_shared<const SourceText>(file, text),
          {0, static_cast<std::uint32_t>(text.size())}};
}

ScenarioInput input_of(const ProgramGraph& graph, const GraphNode& node) {
  const ValueType& type = node.results.at(0).type;
  if (type.mesh != 0) {
    fail(Fix{kCaptureProgram}, "the input '{}' is not on the program's mesh", node.name);
  }
  ScenarioInput input;
  input.name = node.name;
  input.type.text = std::make_shared<const SourceText>(graph.file, type_text(graph, type));
  input.type.dtype = type.dtype;
  input.type.sizes.assign(type.shape.begin(), type.shape.end());
  input.where = where_of(graph.file, node.name);
  if (!is_whole(node.recipe, product(type.shape))) {
    fail(Fix{kCaptureProgram}, "the input '{}' does not say all of its elements", node.name);
  }
  input.recipe = node.recipe;
  input.requires_grad = node.requires_grad;
  return input;
}

ScenarioMesh mesh_of(const ProgramGraph& graph) {
  const GraphMesh& written = graph.meshes.at(0);
  ScenarioMesh mesh;
  for (std::size_t dim = 0; dim < written.shape.size(); ++dim) {
    mesh.dims.push_back({dim_name(written, dim), written.shape[dim], where_of(graph.file, "mesh")});
    mesh.size *= written.shape[dim];
  }
  if (!written.ranks.empty()) mesh.ranks = written.ranks;
  if (mesh.size > graph.world) {
    fail(Fix{kCaptureProgram}, "a mesh of {} ranks in a world of {}", mesh.size, graph.world);
  }
  return mesh;
}

}  // namespace

Scenario scenario_of(const ProgramGraph& graph) {
  Scenario scenario;
  scenario.file = std::make_shared<const SourceText>(graph.file, "");
  scenario.title = graph.title;
  scenario.seed = graph.seed;
  scenario.world = graph.world;
  scenario.mesh = mesh_of(graph);
  for (const GraphNode& node : graph.nodes) {
    if (node.kind != NodeKind::kInput) continue;
    if (node.results.empty()) {
      fail(Fix{kCaptureProgram}, "the input '{}' gives no value", node.name);
    }
    scenario.inputs.push_back(input_of(graph, node));
  }
  scenario.program = std::make_shared<const ast::Program>(
      parse_program(std::make_shared<const SourceText>(graph.file, "pass\n")));
  const auto implicit = parse_implicit(graph.policies.implicit);
  if (!implicit) {
    fail(Fix{"allow, warn or forbid"}, "'{}' is not an implicit policy", graph.policies.implicit);
  }
  scenario.expect.implicit = *implicit;
  if (!graph.policies.planner.empty()) {
    scenario.planner = parse_planner(graph.policies.planner);
    if (!scenario.planner) {
      fail(Fix{"greedy, graph or bytes"}, "'{}' is not a planner", graph.policies.planner);
    }
  }
  for (const auto& [op, rule, local] : graph.policies.rules) {
    scenario.rules.push_back(
        {op, rule, where_of(graph.file, op), where_of(graph.file, rule), nullptr});
    if (local.empty()) continue;
    scenario.rules.back().local = std::make_shared<const ast::Program>(
        parse_program(std::make_shared<const SourceText>(graph.file, local)));
  }
  for (const GraphPolicies::Link& link : graph.policies.links) {
    scenario.topology.push_back({link.mesh_dim, link.gbps, link.us});
  }
  return scenario;
}

}  // namespace shardlab
