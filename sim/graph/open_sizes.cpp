// Inputs keep the expressions of their sizes, which are evaluated again. The facts that a graph
// depends on are asked of the new inputs, by the function that read them from the scenario's.
#include "sim/graph/open_sizes.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "sim/graph/capture.h"
#include "sim/graph/input_recipe.h"
#include "sim/language/syntax/constant.h"
#include "trace/guards.h"

namespace shardlab {

namespace {

void put(NamedSizes& known, const std::pair<std::string, std::int64_t>& size) {
  const auto found = std::ranges::find(known, size.first, &NamedSizes::value_type::first);
  if (found != known.end()) {
    found->second = size.second;
    return;
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : known) names.push_back(name);
  fail(Fix{suggest(size.first, names)}, "no size of the graph's inputs is written with '{}'",
       size.first);
}

std::int64_t evaluated(const ProgramGraph& graph, const std::string& written) {
  Environment names;
  for (const auto& [name, size] : graph.sizes) names.emplace_back(name, size);
  const GraphMesh& mesh = graph.meshes.at(0);
  for (std::size_t dim = 0; dim < mesh.shape.size(); ++dim) {
    names.emplace_back(dim_name(mesh, dim), mesh.shape[dim]);
  }
  const SourceText text(graph.file, written);
  const auto end = static_cast<std::uint32_t>(written.size());
  const std::int64_t size = evaluate_integer(text, {0, end}, names);
  if (size >= 0) return size;
  fail(Fix{"give sizes of 0 or more"}, "the size {} is {}", written, size);
}

void resize(const ProgramGraph& graph, GraphNode& input) {
  const std::vector<std::string>& written = input.recipe.sizes;
  ValueType& type = input.results.at(0).type;
  if (written.size() != type.shape.size()) {
    fail(Fix{kCaptureProgram}, "the input '{}' has {} dims and {} sizes", input.name,
         type.shape.size(), written.size());
  }
  for (std::size_t dim = 0; dim < written.size(); ++dim) {
    type.shape[dim] = evaluated(graph, written[dim]);
  }
  type.stride = contiguous_strides(type.shape);
}

// Checks the guards that other sizes can break.
void check_guards(const ProgramGraph& graph) {
  std::vector<Guard> facts = facts_of(scenario_of(graph));
  std::vector<Guard> guards;
  for (const Guard& guard : graph.guards) {
    if (guard.source.starts_with("inputs.")) guards.push_back(guard);
    for (const auto& [name, size] : graph.sizes) {
      if (guard.source != "params." + name) continue;
      guards.push_back(guard);
      facts.push_back(
          {.kind = guard.kind, .source = guard.source, .expected = std::to_string(size)});
    }
  }
  if (const auto broken = first_broken(guards, facts)) throw refusal_of(*broken);
}

}  // namespace

std::vector<ProgramGraph> with_sizes(std::vector<ProgramGraph> graphs, const NamedSizes& sizes) {
  for (ProgramGraph& graph : graphs) {
    if (!graph.dynamic) {
      fail(
          Fix{"let an input of the scenario have dynamic dims (dynamic = 0), and capture it again"},
          "the graph holds for the sizes that it was captured with, not for {}", sizes_text(sizes));
    }
    for (const auto& size : sizes) put(graph.sizes, size);
    for (GraphNode& node : graph.nodes) {
      if (node.kind == NodeKind::kInput) resize(graph, node);
    }
    graph.digests.clear();
  }
  check_guards(graphs.at(0));
  return graphs;
}

std::string sizes_text(const NamedSizes& sizes) {
  std::vector<std::string> texts;
  for (const auto& [name, size] : sizes) texts.push_back(fmt::format("{} = {}", name, size));
  return text_of_list(texts, ", ");
}

}  // namespace shardlab
