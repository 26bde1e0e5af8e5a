// Options with their default are not written.
#include "sim/capture/cpp_options.h"

#include "base/fix.h"
#include "base/text_of_list.h"
#include "mesh/spec.h"
#include "sim/capture/cpp_words.h"
#include "sim/capture/input_recipe.h"
#include "sim/run/topology.h"

namespace shardlab {

namespace {

std::string init(const GraphMesh& mesh) {
  return fmt::format("{{.shape = {{{}}}, .names = {}, .ranks = {{{}}}}}",
                     text_of_list(mesh.shape, ", "), cpp_texts(mesh.names),
                     text_of_list(mesh.ranks, ", "));
}

// Both numbers of a link, of which the policy may have one.
std::string links_text(const ProgramGraph& graph) {
  if (graph.policies.links.empty()) return "";
  const GraphMesh& mesh = graph.meshes.at(0);
  Arena arena;
  const Topology topology =
      topology_of(scenario_of(graph).topology,
                  arena.layout({.shape = mesh.shape, .names = mesh.names, .ranks = mesh.ranks}));
  std::string text =
      fmt::format("  plans.topology.mesh = process_arena().layout({});\n", init(mesh));
  for (const auto& [dim, link] : topology.links) {
    text += fmt::format("  plans.topology.links[{}] = {{{}, {}}};\n", cpp_text(dim),
                        cpp_number(link.gbps), cpp_number(link.us));
  }
  return text;
}

// The stack of its rank that a statement needs, without optimization: its arguments, and the
// elements that it lists.
std::size_t frame_bytes(const GraphNode& node) {
  constexpr std::size_t kStatement = 1024, kArgument = 256, kElement = 64;
  std::size_t arguments = node.args.size() + node.results.size();
  for (const GraphArgument& argument : node.args) {
    for_each_value(argument, [&](const ValueRef&) { ++arguments; });
  }
  std::size_t elements = node.recipe.values.size();
  for (const std::vector<Scalar>& one : node.data) elements += one.size();
  return kStatement + kArgument * arguments + kElement * elements;
}

// Pages that are not used cost nothing.
std::string stack_text(const ProgramGraph& graph) {
  constexpr std::size_t kFits = 64 * 1024;
  std::size_t bytes = 0;
  for (const GraphNode& node : graph.nodes) bytes += frame_bytes(node);
  if (bytes <= kFits) return "";
  return fmt::format("  options.schedule.stack_bytes += {};  // for all that follows\n", bytes);
}

}  // namespace

std::string cpp_head(const ProgramGraph& graph, const std::string& code) {
  const auto error = graph.nodes.empty() ? std::nullopt : graph.nodes.back().error;
  std::string text = fmt::format(
      "// {}\n"
      "// Written by `shardlab trace --cpp`. Where shardlab is installed:\n"
      "//   g++ -std=c++20 program.cpp $(pkg-config --cflags --libs shardlab) -o program\n"
      "// It prints what it leaves behind: a line for each value, with the digest of its bits, "
      "and those of\n"
      "// all values by rank, as a graph of `shardlab trace --out` has them.\n",
      cpp_text(graph.title));
  if (error) {
    text += fmt::format("// It fails in its last statement: {}\n", cpp_text(error->message));
  }
  text += "#include <shardlab/shardlab.h>\n#include <shardlab/trace.h>\n\n";
  if (error) text += "#include <cstdio>\n";
  if (code.find("std::complex") != std::string::npos) text += "#include <complex>\n";
  if (code.find("numeric_limits") != std::string::npos) text += "#include <limits>\n";
  if (!text.ends_with("\n\n")) text += "\n";
  return text + "using namespace shardlab;\n\n";
}

std::string cpp_options(const ProgramGraph& graph) {
  const GraphPolicies& policies = graph.policies;
  std::string text = fmt::format("  WorldOptions options;\n  options.ranks = {};\n", graph.world);
  if (graph.seed != 0) text += fmt::format("  options.seed = {};\n", cpp_unsigned(graph.seed));
  text += stack_text(graph);
  if (!policies.implicit.empty() && policies.implicit != "allow") {
    text += fmt::format("  options.implicit = {};\n",
                        cpp_enumerator("ImplicitRedistribution", policies.implicit));
  }
  const bool usual = policies.planner.empty() && policies.links.empty();
  if (usual && policies.rules.empty()) return text;
  text += "  PlanOptions plans;\n";
  if (!policies.planner.empty()) {
    text += fmt::format("  plans.planner = {};\n", cpp_enumerator("PlannerKind", policies.planner));
  }
  text += links_text(graph);
  const bool own = !policies.rules.empty();
  if (own) text += "  const auto rules = ops_with([](OpRegistry& registry) {\n";
  for (const auto& [op, rule, local] : policies.rules) {
    if (!local.empty()) {
      fail(
          ErrorKind::kUnsupported,
          Fix{"write it in C++ (set_factor_rule with a program), or run the graph: --toml, replay"},
          "the rule of {} has a local program, which has no form in C++", op);
    }
    text += fmt::format("    set_factor_rule(registry, {}, {});\n", cpp_text(op), cpp_text(rule));
  }
  if (own) text += "  });\n";
  return text + fmt::format(
                    "  Propagator propagator({}, plans);\n"
                    "  options.propagator = &propagator;\n",
                    own ? "*rules" : "all_ops()");
}

std::string cpp_mesh(const GraphMesh& mesh) {
  if (mesh.names.empty()) {
    return fmt::format("construct_mesh(process_arena().layout({}))", init(mesh));
  }
  std::vector<std::string> dims;
  for (std::size_t dim = 0; dim < mesh.shape.size(); ++dim) {
    dims.push_back(fmt::format("{{{}, {}}}", cpp_text(mesh.names[dim]), mesh.shape[dim]));
  }
  std::string text = fmt::format("init_mesh({{{}}}", text_of_list(dims, ", "));
  if (!mesh.ranks.empty()) text += fmt::format(", {{{}}}", text_of_list(mesh.ranks, ", "));
  return text + ")";
}

std::string cpp_recipe(const InputRecipe& recipe) {
  return fmt::format("{{.init = {}, .arguments = {}, .scale = {}, .values = {}}}",
                     cpp_text(recipe.init), cpp_numbers(recipe.arguments), cpp_number(recipe.scale),
                     cpp_numbers(recipe.values));
}

bool is_usual(const InputRecipe& recipe) {
  return recipe == InputRecipe{.init = "randn", .arguments = {}, .scale = 1, .values = {}};
}

}  // namespace shardlab
